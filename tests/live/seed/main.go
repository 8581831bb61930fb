// Command seed puts many objects into the live test plane quickly, and takes
// other projects' definitions out of their Go modules at build time.
//
//	seed extract MODULES FOLDER    definitions of the modules named in the file, as JSON lists
//	seed create [FILE...]          creates the objects of JSON lists, many at a time
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "extract":
		err = extract(os.Args[2], os.Args[3])
	case len(os.Args) >= 3 && os.Args[1] == "create":
		err = create(os.Args[2:])
	default:
		err = fmt.Errorf("usage: seed extract MODULES FOLDER | seed create FILE...")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

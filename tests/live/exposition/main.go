// Command exposition stands in for the dcgm-exporter pods of the live test
// plane: KWOK runs no containers, so this answers on the pods' addresses.
//
//	kubectl get nodes,pods -A -o json | exposition place FILE
//	exposition serve FILE
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "place":
		err = place(os.Stdin, os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "serve":
		err = serve(os.Args[2])
	default:
		err = fmt.Errorf("usage: exposition place|serve FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "exposition:", err)
		os.Exit(1)
	}
}

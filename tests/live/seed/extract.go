package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// extract reads lines of `NAME MODULE VERSION SUM GLOB...` and writes
// FOLDER/NAME.json for each: a List of all objects in the files that the globs
// name inside the module. A name may have several lines.
func extract(path, folder string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lists := map[string][]any{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 5 {
			return fmt.Errorf("%s: not NAME MODULE VERSION SUM GLOB...: %s", path, lines.Text())
		}
		dir, err := module(words[1], words[2], words[3])
		if err != nil {
			return err
		}
		for _, glob := range words[4:] {
			found, err := filepath.Glob(filepath.Join(dir, glob))
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return fmt.Errorf("%s@%s has no file %s", words[1], words[2], glob)
			}
			for _, name := range found {
				objects, err := documents(name)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				lists[words[0]] = append(lists[words[0]], objects...)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for name, items := range lists {
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// module downloads a module and refuses one with another sum than the pinned.
func module(path, version, sum string) (string, error) {
	command := exec.Command("go", "mod", "download", "-json", path+"@"+version)
	command.Dir = os.TempDir() // outside any module of ours
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var complaint bytes.Buffer
	command.Stderr = &complaint
	text, failure := command.Output()
	var got struct{ Dir, Sum, Error string }
	if err := json.Unmarshal(text, &got); err != nil || failure != nil || got.Error != "" {
		return "", fmt.Errorf("%s@%s: %v %s %s", path, version, failure, got.Error, complaint.String())
	}
	if got.Sum != sum {
		return "", fmt.Errorf("%s@%s has the sum %s, not %s", path, version, got.Sum, sum)
	}
	return got.Dir, nil
}

func documents(path string) ([]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []any
	for _, part := range strings.Split("\n"+string(text), "\n---") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			return nil, err
		}
		if object["kind"] == nil {
			continue
		}
		if object["kind"] == "CustomResourceDefinition" {
			// Nobody reads the descriptions here, and they are most of the bytes.
			if spec, ok := object["spec"].(map[string]any); ok {
				for _, version := range spec["versions"].([]any) {
					undescribed(version.(map[string]any)["schema"])
				}
			}
			delete(object, "status")
		}
		all = append(all, object)
	}
	return all, nil
}

// undescribed takes the descriptions out of a schema; a property may itself be
// called description.
func undescribed(schema any) {
	switch node := schema.(type) {
	case map[string]any:
		if text, ok := node["description"].(string); ok && text != "" {
			delete(node, "description")
		}
		for _, child := range node {
			undescribed(child)
		}
	case []any:
		for _, child := range node {
			undescribed(child)
		}
	}
}

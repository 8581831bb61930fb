package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

type object = map[string]any

// api speaks to the API server that SEED_SERVER, SEED_TOKEN and SEED_CA (a
// file) name.
type api struct {
	server, token string
	client        http.Client
	mu            sync.Mutex
	resources     map[string][]resource // by group/version
}

type resource struct {
	Name, Kind string
	Namespaced bool
}

// How many requests are under way at one time.
const width = 24

// create makes the objects of each file in turn: within a file first those
// that others may need (namespaces, classes), then the rest, all at once. An
// object with a status gets it in a second request. In ownerReferences a uid
// of "?" becomes the uid of the object named there, which an earlier file made.
func create(files []string) error {
	authority, err := os.ReadFile(os.Getenv("SEED_CA"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	a := &api{server: os.Getenv("SEED_SERVER"), token: os.Getenv("SEED_TOKEN"), resources: map[string][]resource{}}
	a.client = http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: width, ForceAttemptHTTP2: true,
	}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if file == "-" {
			text, err = io.ReadAll(os.Stdin)
		}
		if err != nil {
			return err
		}
		var list struct{ Items []object }
		if err := json.Unmarshal(text, &list); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var first, rest []object
		for _, item := range list.Items {
			switch item["kind"] {
			case "Namespace", "PriorityClass", "CustomResourceDefinition", "ClusterTrainingRuntime", "ResourceFlavor", "Topology", "Cohort", "WorkloadPriorityClass":
				first = append(first, item)
			default:
				rest = append(rest, item)
			}
		}
		for _, items := range [][]object{first, rest} {
			if err := a.all(items); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

func (a *api) all(items []object) error {
	var group sync.WaitGroup
	work := make(chan object)
	failed := make(chan error, len(items))
	for range min(width, len(items)) {
		group.Add(1)
		go func() {
			defer group.Done()
			for item := range work {
				if err := a.one(item); err != nil {
					failed <- err
				}
			}
		}()
	}
	for _, item := range items {
		work <- item
	}
	close(work)
	group.Wait()
	close(failed)
	var all []error
	for err := range failed {
		all = append(all, err)
	}
	if len(all) > 8 {
		all = append(all[:8], fmt.Errorf("and %d more", len(all)-8))
	}
	return errors.Join(all...)
}

func (a *api) one(item object) error {
	meta, _ := item["metadata"].(object)
	name, _ := meta["name"].(string)
	what := fmt.Sprintf("%v %v/%s", item["kind"], meta["namespace"], name)
	if owners, ok := meta["ownerReferences"].([]any); ok {
		for _, each := range owners {
			owner := each.(object)
			if owner["uid"] != "?" {
				continue
			}
			uid, err := a.uid(owner, meta["namespace"])
			if err != nil {
				return fmt.Errorf("%s: its owner: %w", what, err)
			}
			owner["uid"] = uid
		}
	}
	path, err := a.path(item, meta["namespace"])
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	status := item["status"]
	if _, err := a.send("POST", path, "application/json", item); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	// (What a node has is taken with the node itself.)
	if status == nil || item["kind"] == "Node" {
		return nil
	}
	_, err = a.send("PATCH", path+"/"+name+"/status", "application/merge-patch+json", object{"status": status})
	if err != nil {
		return fmt.Errorf("status of %s: %w", what, err)
	}
	return nil
}

func (a *api) uid(owner object, namespace any) (any, error) {
	path, err := a.path(owner, namespace)
	if err != nil {
		return nil, err
	}
	found, err := a.send("GET", path+"/"+owner["name"].(string), "", nil)
	if err != nil {
		return nil, err
	}
	return found["metadata"].(object)["uid"], nil
}

// path is where objects of this kind stand.
func (a *api) path(item object, namespace any) (string, error) {
	version, _ := item["apiVersion"].(string)
	base := "/apis/" + version
	if !strings.Contains(version, "/") {
		base = "/api/" + version
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	kinds, ok := a.resources[version]
	if !ok {
		// A definition that was made a moment ago is served a moment later.
		until := time.Now().Add(20 * time.Second)
		for {
			found, err := a.send("GET", base, "", nil)
			if err == nil {
				text, _ := json.Marshal(found["resources"])
				if err := json.Unmarshal(text, &kinds); err != nil {
					return "", err
				}
				break
			}
			if time.Now().After(until) {
				return "", err
			}
			time.Sleep(200 * time.Millisecond)
		}
		a.resources[version] = kinds
	}
	for _, kind := range kinds {
		if kind.Kind != item["kind"] || strings.Contains(kind.Name, "/") {
			continue
		}
		if kind.Namespaced {
			base += fmt.Sprintf("/namespaces/%v", namespace)
		}
		return base + "/" + kind.Name, nil
	}
	delete(a.resources, version) // another kind of the group may be served later
	return "", fmt.Errorf("%s does not serve the kind %v", version, item["kind"])
}

// send asks once, and again for a few seconds while the server or a webhook
// behind it is not ready.
func (a *api) send(method, path, kind string, body any) (object, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	until := time.Now().Add(20 * time.Second)
	for {
		request, err := http.NewRequest(method, a.server+path, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+a.token)
		request.Header.Set("Accept", "application/json")
		if kind != "" {
			request.Header.Set("Content-Type", kind)
		}
		answer, err := a.client.Do(request)
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			return nil, err
		}
		if answer.StatusCode < 300 {
			var found object
			return found, json.Unmarshal(content, &found)
		}
		// (A pod may come before the account of a namespace that is a moment old.)
		again := answer.StatusCode == 429 || answer.StatusCode >= 500 || answer.StatusCode == 403 && bytes.Contains(content, []byte("service account"))
		if !again || time.Now().After(until) {
			return nil, fmt.Errorf("%s %s: %s: %.600s", method, path, answer.Status, content)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

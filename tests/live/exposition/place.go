package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
)

// Placement is what the exporters tell: written by `place` from the objects of
// the API server, read by `serve`.
type Placement struct {
	Exporters []Exporter `json:"exporters"`
}

// Exporter is one exporter pod and the devices of its node.
type Exporter struct {
	Address   string   `json:"address"`
	Port      int      `json:"port"`
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
	Node      string   `json:"node"`
	Driver    string   `json:"driver"`
	Style     Style    `json:"style"`
	Devices   []Device `json:"devices"`
}

// Style is how an exporter's version writes its labels.
type Style struct {
	HostLabel   string `json:"host_label"`   // Hostname, or hostname since 2026
	EmptyLabels bool   `json:"empty_labels"` // pod="" for a free device, as older versions do
}

type Device struct {
	Index  int     `json:"index"`
	UUID   string  `json:"uuid"`
	Model  string  `json:"model"`
	PCI    string  `json:"pci"`
	MemMiB int     `json:"memory_mib"`
	Watts  int     `json:"power_limit_watts"`
	Fault  int     `json:"fault,omitempty"` // the last XID
	Owners []Owner `json:"owners,omitempty"`
	Slices []Slice `json:"slices,omitempty"`
	Shared bool    `json:"shared,omitempty"`
}

type Slice struct {
	ID      int    `json:"gpu_instance_id"`
	Profile string `json:"profile"`
	MemMiB  int    `json:"memory_mib"`
	Owner   *Owner `json:"owner,omitempty"`
}

// Owner is the container that holds a device. Slot tells the copies of a
// shared device apart.
type Owner struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	UID       string `json:"uid"`
	Load      string `json:"load"`
	Slot      int    `json:"slot,omitempty"`
}

type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name, Namespace, UID string
		Labels, Annotations  map[string]string
		DeletionTimestamp    *string
	} `json:"metadata"`
	Spec struct {
		NodeName   string
		Containers []struct {
			Name      string
			Ports     []struct{ ContainerPort int }
			Resources struct{ Limits map[string]string }
		}
	} `json:"spec"`
	Status struct {
		Phase       string
		PodIP       string
		Capacity    map[string]string
		Allocatable map[string]string
	} `json:"status"`
}

// What a product label stands for.
var products = map[string]struct {
	model string
	mem   int
	watts int
}{
	"NVIDIA-H100-80GB-HBM3": {"NVIDIA H100 80GB HBM3", 81559, 700},
	"NVIDIA-A100-SXM4-80GB": {"NVIDIA A100-SXM4-80GB", 81920, 400},
	"NVIDIA-L4":             {"NVIDIA L4", 23034, 72},
	"NVIDIA-GB200":          {"NVIDIA GB200", 189471, 1200},
	"NVIDIA-L40S":           {"NVIDIA L40S", 46068, 350},
	"NVIDIA-A100-SXM4-40GB": {"NVIDIA A100-SXM4-40GB", 40960, 400},
	"NVIDIA-A100-80GB-PCIe": {"NVIDIA A100 80GB PCIe", 81920, 300},
	"nvidia-h100-mega-80gb": {"NVIDIA H100 80GB HBM3", 81559, 700}, // as GKE labels it
}

// isExporter tells the pods of the GPU operator's exporter and of GKE's own.
func isExporter(pod object) bool {
	labels := pod.Metadata.Labels
	return labels["app"] == "nvidia-dcgm-exporter" || labels["app.kubernetes.io/name"] == "gke-managed-dcgm-exporter"
}

// The slices of one device under a MIG configuration.
var layouts = map[string][]Slice{
	"all-balanced": {{ID: 2, Profile: "3g.40gb", MemMiB: 40192}, {ID: 3, Profile: "2g.20gb", MemMiB: 19968}, {ID: 9, Profile: "1g.10gb", MemMiB: 9728}, {ID: 10, Profile: "1g.10gb", MemMiB: 9728}},
	"all-1g.10gb": {{ID: 7, Profile: "1g.10gb", MemMiB: 9728}, {ID: 8, Profile: "1g.10gb", MemMiB: 9728}, {ID: 9, Profile: "1g.10gb", MemMiB: 9728}, {ID: 10, Profile: "1g.10gb", MemMiB: 9728},
		{ID: 11, Profile: "1g.10gb", MemMiB: 9728}, {ID: 12, Profile: "1g.10gb", MemMiB: 9728}, {ID: 13, Profile: "1g.10gb", MemMiB: 9728}},
}

func driver(node object) string {
	if full := node.Metadata.Labels["nvidia.com/cuda.driver-version.full"]; full != "" {
		return full
	}
	return "570.124.06" // GKE installs its own
}

func hash(parts ...any) []byte {
	sum := sha256.Sum256([]byte(fmt.Sprintln(parts...)))
	return sum[:]
}

func deviceUUID(node string, index int) string {
	b := hash(node, index)
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// unit is one thing that a container can hold under a resource's name.
type unit struct {
	resource string
	device   int
	slice    int // -1: the whole device, or a slot of it
	slot     int
	owner    *Owner
}

func (u *unit) key() string { return fmt.Sprint(u.resource, "/", u.device, "/", u.slice, "/", u.slot) }

func place(in io.Reader, path string) error {
	var list struct{ Items []object }
	if err := json.NewDecoder(in).Decode(&list); err != nil {
		return err
	}
	var before Placement
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &before); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text, err := json.MarshalIndent(arrange(list.Items, before), "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.WriteFile(path+".part", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// arrange gives each container that is bound to a node its devices. A container
// keeps what it had; the rest get the first that are free, in order of name.
func arrange(objects []object, before Placement) Placement {
	held := map[string]string{} // node, unit -> uid, container
	for _, e := range before.Exporters {
		for _, d := range e.Devices {
			for _, o := range d.Owners {
				held[e.Node+"/"+(&unit{"nvidia.com/gpu", d.Index, -1, o.Slot, nil}).key()] = o.UID + "/" + o.Container
			}
			for i, s := range d.Slices {
				if s.Owner != nil {
					for _, resource := range []string{"nvidia.com/gpu", "nvidia.com/mig-" + s.Profile} {
						held[e.Node+"/"+(&unit{resource, d.Index, i, 0, nil}).key()] = s.Owner.UID + "/" + s.Owner.Container
					}
				}
			}
		}
	}
	sort.Slice(objects, func(i, j int) bool {
		a, b := objects[i].Metadata, objects[j].Metadata
		return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
	})
	pods := map[string][]object{}
	for _, o := range objects {
		if o.Kind == "Pod" && o.Spec.NodeName != "" && o.Status.Phase != "Succeeded" && o.Status.Phase != "Failed" {
			pods[o.Spec.NodeName] = append(pods[o.Spec.NodeName], o)
		}
	}
	result := Placement{Exporters: []Exporter{}}
	for _, node := range objects {
		if node.Kind != "Node" {
			continue
		}
		devices := allot(node, pods[node.Metadata.Name], held)
		for _, pod := range pods[node.Metadata.Name] {
			if !isExporter(pod) || pod.Status.PodIP == "" || pod.Metadata.DeletionTimestamp != nil ||
				pod.Metadata.Annotations["live.stokehold.dev/exporter"] == "off" {
				continue
			}
			style := Style{HostLabel: "Hostname"}
			if strings.HasPrefix(node.Metadata.Name, "gb200") {
				style.HostLabel = "hostname"
			}
			if strings.HasPrefix(node.Metadata.Name, "a100") {
				style.EmptyLabels = true
			}
			port := 9400
			if ports := pod.Spec.Containers[0].Ports; len(ports) > 0 {
				port = ports[0].ContainerPort
			}
			result.Exporters = append(result.Exporters, Exporter{
				Address: pod.Status.PodIP, Port: port, Namespace: pod.Metadata.Namespace, Pod: pod.Metadata.Name, Node: node.Metadata.Name,
				Driver: driver(node), Style: style, Devices: devices,
			})
		}
	}
	return result
}

func allot(node object, pods []object, held map[string]string) []Device {
	labels := node.Metadata.Labels
	product, _, _ := strings.Cut(labels["nvidia.com/gpu.product"]+labels["cloud.google.com/gke-accelerator"], "-MIG-")
	kind, ok := products[strings.TrimSuffix(product, "-SHARED")]
	if !ok {
		return nil
	}
	count, _ := strconv.Atoi(labels["nvidia.com/gpu.count"] + labels["cloud.google.com/gke-accelerator-count"])
	layout := layouts[labels["nvidia.com/mig.config"]]
	single := labels["nvidia.com/mig.strategy"] == "single" && layout != nil
	if single {
		count /= len(layout)
	}
	copies, _ := strconv.Atoi(labels["nvidia.com/gpu.replicas"])
	shared := labels["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
	if !shared {
		copies = 1
	}
	number := func(from map[string]string) int { n, _ := strconv.Atoi(from["nvidia.com/gpu"]); return n }
	lost := (number(node.Status.Capacity) - number(node.Status.Allocatable)) / copies

	var devices []Device
	var units []*unit
	for i := range count {
		d := Device{
			Index: i, UUID: deviceUUID(node.Metadata.Name, i), Model: kind.model, MemMiB: kind.mem, Watts: kind.watts, Shared: shared,
			PCI: fmt.Sprintf("00000000:%02X:00.0", 0x10+i*0x11), Slices: append([]Slice(nil), layout...),
		}
		// The devices that the device plugin gave up are the last ones.
		if i >= count-lost && layout == nil {
			d.Fault = 48
		} else if layout != nil {
			for s, slice := range layout {
				resource := "nvidia.com/mig-" + slice.Profile
				if single {
					resource = "nvidia.com/gpu"
				}
				units = append(units, &unit{resource: resource, device: i, slice: s})
			}
		}
		devices = append(devices, d)
	}
	if layout == nil {
		for slot := range copies { // a shared device is filled after the others have one each
			for i := range count - lost {
				units = append(units, &unit{resource: "nvidia.com/gpu", device: i, slice: -1, slot: slot})
			}
		}
	}

	type want struct {
		owner    Owner
		resource string
		count    int
	}
	var wants []want
	for _, pod := range pods {
		for _, c := range pod.Spec.Containers {
			var names []string
			for name := range c.Resources.Limits {
				if strings.HasPrefix(name, "nvidia.com/") {
					names = append(names, name)
				}
			}
			sort.Strings(names)
			for _, name := range names {
				n, _ := strconv.Atoi(c.Resources.Limits[name])
				load := pod.Metadata.Annotations["live.stokehold.dev/load"]
				if load == "" {
					load = "busy"
				}
				if pod.Status.Phase != "Running" {
					load = "idle"
				}
				wants = append(wants, want{Owner{pod.Metadata.Namespace, pod.Metadata.Name, c.Name, pod.Metadata.UID, load, 0}, name, n})
			}
		}
	}
	for i := range wants {
		for _, u := range units {
			w := &wants[i]
			if w.count > 0 && u.resource == w.resource && u.owner == nil && held[node.Metadata.Name+"/"+u.key()] == w.owner.UID+"/"+w.owner.Container {
				u.owner, w.count = &w.owner, w.count-1
			}
		}
	}
	for i := range wants {
		for _, u := range units {
			w := &wants[i]
			if w.count > 0 && u.resource == w.resource && u.owner == nil {
				u.owner, w.count = &w.owner, w.count-1
			}
		}
	}
	for _, u := range units {
		if u.owner == nil {
			continue
		}
		owner := *u.owner
		owner.Slot = u.slot
		if u.slice < 0 {
			devices[u.device].Owners = append(devices[u.device].Owners, owner)
		} else {
			devices[u.device].Slices[u.slice].Owner = &owner
		}
	}
	return devices
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// serve keeps one listener for each exporter of the placement, on the exporter
// pod's own address, and follows the file: an exporter that leaves it stops
// to answer.
func serve(path string) error {
	type running struct {
		page   *atomic.Pointer[Exporter]
		server *http.Server
	}
	at := map[string]running{}
	var last []byte
	for ; ; time.Sleep(500 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if err != nil || bytes.Equal(text, last) {
			continue
		}
		var placement Placement
		if err := json.Unmarshal(text, &placement); err != nil {
			log.Printf("%s: %v", path, err)
			continue
		}
		last = text
		wanted := map[string]bool{}
		for _, e := range placement.Exporters {
			address := net.JoinHostPort(e.Address, strconv.Itoa(e.Port))
			wanted[address] = true
			if r, ok := at[address]; ok {
				r.page.Store(&e)
				continue
			}
			listener, err := net.Listen("tcp", address)
			if err != nil {
				log.Printf("%s: %v", address, err)
				last = nil // try again
				continue
			}
			page := &atomic.Pointer[Exporter]{}
			page.Store(&e)
			mux := http.NewServeMux()
			mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
				w.Write(render(page.Load()))
			})
			mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
			server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
			go server.Serve(listener)
			at[address] = running{page, server}
		}
		for address, r := range at {
			if !wanted[address] {
				r.server.Close()
				delete(at, address)
			}
		}
		log.Printf("%d exporters", len(at))
	}
}

// row is one series of a device: the whole device, a slice, or a copy that a
// pod holds of a shared device.
type row struct {
	device *Device
	slice  *Slice
	owner  *Owner
	whole  bool // the row of the device itself
	copies int  // into how many the shared device's work divides
}

type field struct {
	name, kind, help string
	shared           bool // has its own value for each pod that shares a device
	value            func(row) (float64, bool)
}

// some is a number between low and high that stays the same for a device.
func some(r row, what string, low, high int) float64 {
	key := r.device.UUID
	if r.slice != nil {
		key += fmt.Sprint("/", r.slice.ID)
	}
	b := hash(key, what)
	return float64(low + (int(b[0])<<8|int(b[1]))%(high-low+1))
}

func (r row) busy() bool {
	if r.owner != nil {
		return r.owner.Load != "idle"
	}
	if r.slice == nil {
		for _, o := range r.device.Owners {
			if o.Load != "idle" {
				return true
			}
		}
	}
	return false
}

func (r row) load() string {
	if r.owner != nil {
		return r.owner.Load
	}
	return "busy"
}

func whole(f func(row) float64) func(row) (float64, bool) {
	return func(r row) (float64, bool) { return f(r), true }
}

// anyBusy: a device with slices works when one of them does.
func anyBusy(r row) bool {
	if r.slice == nil {
		return r.busy()
	}
	for i := range r.device.Slices {
		if o := r.device.Slices[i].Owner; o != nil && o.Load != "idle" {
			return true
		}
	}
	return false
}

func device(r row) row { return row{device: r.device} }

func util(r row) float64 {
	if !r.busy() {
		return 0
	}
	return float64(int(some(device(r), "util", 82, 99)) / max(r.copies, 1))
}

func watts(r row) float64 {
	limit := float64(r.device.Watts)
	if anyBusy(r) {
		return limit * some(device(r), "watts", 780, 960) / 1000
	}
	return limit * some(device(r), "watts", 90, 130) / 1000
}

func used(r row) float64 {
	total := r.device.MemMiB
	if r.slice != nil {
		total = r.slice.MemMiB
	}
	if r.owner == nil && len(r.device.Owners) == 0 {
		return some(r, "used", 1, 4)
	}
	if r.slice == nil && r.copies > 1 {
		return float64(int(float64(total)*some(device(r), "used", 700, 930)/1000) / r.copies)
	}
	if r.busy() {
		return float64(int(float64(total) * some(r, "used", 700, 930) / 1000))
	}
	return float64(int(float64(total) * some(r, "used", 120, 180) / 1000))
}

func reserved(r row) float64 {
	if r.slice != nil {
		return 1
	}
	return some(device(r), "reserved", 500, 640)
}

func free(r row) float64 {
	total := r.device.MemMiB
	if r.slice != nil {
		total = r.slice.MemMiB
	}
	all := r
	if r.slice == nil {
		all = row{device: r.device, owner: r.owner}
	}
	return max(0, float64(total)-used(all)-reserved(r))
}

func share(low, high int, what string) func(row) (float64, bool) {
	return whole(func(r row) float64 {
		if !r.busy() {
			return 0
		}
		return some(r, what, low, high) / 1000
	})
}

var fields = []field{
	{name: "DCGM_FI_DEV_SM_CLOCK", kind: "gauge", help: "Clock of the processors, MHz", value: whole(func(r row) float64 {
		if anyBusy(r) {
			return some(device(r), "clock", 1300, 1980)
		}
		return 345
	})},
	{name: "DCGM_FI_DEV_MEM_CLOCK", kind: "gauge", help: "Clock of the memory, MHz", value: whole(func(r row) float64 { return 2619 })},
	{name: "DCGM_FI_DEV_MEMORY_TEMP", kind: "gauge", help: "Temperature of the memory, C", value: whole(func(r row) float64 {
		if strings.Contains(r.device.Model, "L4") { // it has no such sensor
			return 0
		}
		if anyBusy(r) {
			return some(device(r), "memtemp", 62, 84)
		}
		return some(device(r), "memtemp", 34, 42)
	})},
	{name: "DCGM_FI_DEV_GPU_TEMP", kind: "gauge", help: "Temperature of the device, C", value: whole(func(r row) float64 {
		if r.load() == "hot" {
			return 91
		}
		if anyBusy(r) {
			return some(device(r), "temp", 52, 74)
		}
		return some(device(r), "temp", 27, 36)
	})},
	{name: "DCGM_FI_DEV_POWER_USAGE", kind: "gauge", help: "Power that the device draws, W", value: whole(watts)},
	{name: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", kind: "gauge", help: "Power limit in force, W", value: whole(func(r row) float64 { return float64(r.device.Watts) })},
	{name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kind: "counter", help: "Energy since the driver started, mJ", value: whole(func(r row) float64 { return watts(r) * 1000 * 86400 })},
	{name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", kind: "counter", help: "PCIe transfers that were sent again", value: whole(func(r row) float64 { return 0 })},
	{name: "DCGM_FI_DEV_GPU_UTIL", kind: "gauge", help: "Part of the time that the device worked, %", shared: true, value: func(r row) (float64, bool) { return util(r), r.slice == nil }},
	{name: "DCGM_FI_DEV_MEM_COPY_UTIL", kind: "gauge", help: "Part of the time that memory was read or written, %", value: func(r row) (float64, bool) { return float64(int(util(r) / 2)), r.slice == nil }},
	{name: "DCGM_FI_DEV_XID_ERRORS", kind: "gauge", help: "The last XID error", value: whole(func(r row) float64 { return float64(r.device.Fault) })},
	{name: "DCGM_FI_DEV_FB_FREE", kind: "gauge", help: "Free memory, MiB", value: whole(free)},
	{name: "DCGM_FI_DEV_FB_USED", kind: "gauge", help: "Used memory, MiB", shared: true, value: whole(used)},
	{name: "DCGM_FI_DEV_FB_RESERVED", kind: "gauge", help: "Memory kept by the driver, MiB", value: whole(reserved)},
	{name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", kind: "counter", help: "Rows remapped for errors that could not be corrected", value: whole(func(r row) float64 {
		if r.device.Fault != 0 {
			return 4
		}
		return 0
	})},
	{name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", kind: "counter", help: "Rows remapped for errors that were corrected", value: whole(func(r row) float64 { return 0 })},
	{name: "DCGM_FI_DEV_ROW_REMAP_FAILURE", kind: "gauge", help: "Whether a row could not be remapped", value: whole(func(r row) float64 {
		if r.device.Fault != 0 {
			return 1
		}
		return 0
	})},
	{name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", kind: "counter", help: "Traffic over all NVLinks", value: func(r row) (float64, bool) {
		if r.slice != nil || strings.Contains(r.device.Model, "L4") {
			return 0, false
		}
		if !r.busy() {
			return 0, true
		}
		return some(device(r), "nvlink", 40000, 190000), true
	}},
	{name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", kind: "gauge", help: "Part of the time that the graphics or compute engine worked", value: share(780, 980, "engine")},
	{name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", kind: "gauge", help: "Part of the cycles that the tensor pipe worked", value: share(250, 520, "tensor")},
	{name: "DCGM_FI_PROF_DRAM_ACTIVE", kind: "gauge", help: "Part of the cycles that memory moved data", value: share(300, 650, "dram")},
	{name: "DCGM_FI_PROF_PCIE_TX_BYTES", kind: "gauge", help: "Bytes sent over PCIe in a second", value: func(r row) (float64, bool) {
		if !r.busy() {
			return 0, r.slice == nil
		}
		return some(device(r), "tx", 1000, 60000) * 10000, r.slice == nil
	}},
	{name: "DCGM_FI_PROF_PCIE_RX_BYTES", kind: "gauge", help: "Bytes received over PCIe in a second", value: func(r row) (float64, bool) {
		if !r.busy() {
			return 0, r.slice == nil
		}
		return some(device(r), "rx", 1000, 60000) * 10000, r.slice == nil
	}},
}

func rows(e *Exporter) []row {
	var all []row
	for i := range e.Devices {
		d := &e.Devices[i]
		switch {
		case len(d.Slices) > 0:
			for s := range d.Slices {
				all = append(all, row{device: d, slice: &d.Slices[s], owner: d.Slices[s].Owner})
			}
		case d.Shared && len(d.Owners) > 0:
			all = append(all, row{device: d, whole: true})
			for o := range d.Owners {
				all = append(all, row{device: d, owner: &d.Owners[o], copies: len(d.Owners)})
			}
		default:
			r := row{device: d, whole: true}
			if len(d.Owners) > 0 {
				r.owner = &d.Owners[0]
			}
			all = append(all, r)
		}
	}
	return all
}

func render(e *Exporter) []byte {
	var out bytes.Buffer
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	all := rows(e)
	for _, f := range fields {
		first := true
		for _, r := range all {
			// On a shared device only some fields have a row for the device itself.
			if r.device.Shared && r.whole && len(r.device.Owners) > 0 && !f.shared {
				continue
			}
			if r.device.Shared && !f.shared {
				r.copies = 0
			}
			value, ok := f.value(r)
			if !ok {
				continue
			}
			if first {
				fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
				first = false
			}
			labels := [][2]string{
				{"gpu", strconv.Itoa(r.device.Index)}, {"UUID", r.device.UUID}, {"pci_bus_id", r.device.PCI},
				{"device", fmt.Sprint("nvidia", r.device.Index)}, {"modelName", r.device.Model},
			}
			if r.slice != nil {
				labels = append(labels, [2]string{"GPU_I_PROFILE", r.slice.Profile}, [2]string{"GPU_I_ID", strconv.Itoa(r.slice.ID)})
			}
			labels = append(labels, [2]string{e.Style.HostLabel, e.Node}, [2]string{"DCGM_FI_DRIVER_VERSION", e.Driver})
			if r.owner != nil {
				labels = append(labels, [2]string{"container", r.owner.Container}, [2]string{"namespace", r.owner.Namespace}, [2]string{"pod", r.owner.Pod})
			} else if e.Style.EmptyLabels {
				labels = append(labels, [2]string{"container", ""}, [2]string{"namespace", ""}, [2]string{"pod", ""})
			}
			if f.name == "DCGM_FI_DEV_XID_ERRORS" {
				code, text := "0", "No Error"
				if r.device.Fault != 0 {
					code, text = strconv.Itoa(r.device.Fault), fmt.Sprint("XID ", r.device.Fault)
				}
				labels = append(labels, [2]string{"err_code", code}, [2]string{"err_msg", text})
			}
			out.WriteString(f.name)
			for i, l := range labels {
				out.WriteByte("{,"[min(i, 1)])
				fmt.Fprintf(&out, `%s="%s"`, l[0], escape.Replace(l[1]))
			}
			fmt.Fprintf(&out, "} %s\n", number(value))
		}
	}
	return out.Bytes()
}

// number writes a value as the exporter does: counts whole, the rest with six places.
func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 6, 64)
}

// gauge runs a program on a terminal of its own until its screen shows a
// pattern, and says how long that took, what memory and processor time it
// needed, and how many bytes it exchanged with the API server, to which it is
// led through a counting forwarder.
//
//	gauge -name NAME -kubeconfig FILE -context NAME -until REGEXP [-rest 60s] [-within 300s] -- PROGRAM ARGUMENT...
//
// In arguments {kubeconfig} stands for a copy of the file that names the
// forwarder. The screen is compared without its blanks. One line of JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const width, height = 200, 50

func main() {
	name := flag.String("name", "", "what to call it")
	config := flag.String("kubeconfig", "", "the plane's kubeconfig")
	context := flag.String("context", "live-viewer", "context")
	until := flag.String("until", "", "what the complete screen matches")
	rest := flag.Duration("rest", 60*time.Second, "how long it is watched afterwards")
	within := flag.Duration("within", 300*time.Second, "how long it may take")
	flag.Parse()
	if err := run(*name, *config, *context, regexp.MustCompile(*until), *rest, *within, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gauge:", err)
		os.Exit(1)
	}
}

var server = regexp.MustCompile(`server: https://([0-9.:]+)`)

func run(name, config, context string, until *regexp.Regexp, rest, within time.Duration, command []string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	found := server.FindSubmatch(text)
	if found == nil {
		return fmt.Errorf("%s names no server", config)
	}
	road, err := forward(string(found[1]))
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "gauge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	own := filepath.Join(home, "kubeconfig")
	text = server.ReplaceAll(text, []byte("server: https://"+road.address))
	text = regexp.MustCompile(`current-context: .*`).ReplaceAll(text, []byte("current-context: "+context))
	if err := os.WriteFile(own, text, 0o600); err != nil {
		return err
	}
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "{kubeconfig}", own)
	}
	master, slave, err := terminal()
	if err != nil {
		return err
	}
	program := exec.Command(command[0], command[1:]...)
	program.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home, "XDG_STATE_HOME="+home, "XDG_CACHE_HOME="+home,
		"TERM=xterm-256color", "COLORTERM=truecolor", "KUBECONFIG="+own)
	program.Stdin, program.Stdout, program.Stderr = slave, slave, slave
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	begin := time.Now()
	if err := program.Start(); err != nil {
		return err
	}
	slave.Close()
	defer program.Process.Kill()
	pid := program.Process.Pid
	written := make(chan []byte, 64)
	go func() {
		defer close(written)
		for {
			buffer := make([]byte, 65536)
			count, err := master.Read(buffer)
			if count > 0 {
				written <- buffer[:count]
			}
			if err != nil {
				return
			}
		}
	}()
	var screen screen
	screen.clear()
	look := time.NewTicker(20 * time.Millisecond)
	var complete time.Duration
	var atComplete, first figures
	var bytesAtComplete int64
	var firstPaint time.Duration
	drawn := 0
	for {
		select {
		case bytes, ok := <-written:
			if !ok {
				return fmt.Errorf("%s ended; its screen:\n%s", name, screen.text())
			}
			drawn += len(bytes)
			if firstPaint == 0 {
				firstPaint = time.Since(begin)
			}
			screen.write(master, bytes)
			continue
		case <-look.C:
		}
		since := time.Since(begin)
		if complete == 0 {
			if until.MatchString(strings.ReplaceAll(screen.text(), " ", "")) {
				complete = since
				if atComplete, err = read(pid); err != nil {
					return err
				}
				first = atComplete
				bytesAtComplete = road.in.Load() + road.out.Load()
			} else if since > within {
				return fmt.Errorf("%s is not complete within %s; its screen:\n%s", name, within, screen.text())
			}
		} else if since > complete+rest {
			break
		}
	}
	last, err := read(pid)
	if err != nil {
		return err
	}
	all := road.in.Load() + road.out.Load()
	out := map[string]any{
		"name": name, "first_paint_s": round(firstPaint.Seconds()), "complete_s": round(complete.Seconds()),
		"cpu_s_at_complete": round(first.cpu), "peak_mib_at_complete": round(first.peak), "peak_mib": round(last.peak), "rss_mib_at_rest": round(last.rss),
		"cpu_percent_at_rest": round((last.cpu - first.cpu) / rest.Seconds() * 100),
		"mib_at_complete":     round(float64(bytesAtComplete) / (1 << 20)), "kib_a_minute_at_rest": round(float64(all-bytesAtComplete) / 1024 / rest.Minutes()),
		"terminal_kib": drawn / 1024,
	}
	line, _ := json.Marshal(out)
	fmt.Println(string(line))
	return nil
}

func round(value float64) float64 { return float64(int64(value*100+0.5)) / 100 }

type road struct {
	address string
	in, out atomic.Int64
}

// forward passes connections on to the server and counts what passes.
func forward(to string) (*road, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &road{address: listener.Addr().String()}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				end, err := net.Dial("tcp", to)
				if err != nil {
					from.Close()
					return
				}
				go pass(from, end, &r.out)
				pass(end, from, &r.in)
			}()
		}
	}()
	return r, nil
}

func pass(from, to net.Conn, count *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 65536)
	for {
		n, err := from.Read(buffer)
		count.Add(int64(n))
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

type figures struct{ cpu, rss, peak float64 }

// read says what a process has used: seconds of processor time, MiB.
func read(pid int) (figures, error) {
	var f figures
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return f, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	for _, at := range []int{11, 12} {
		ticks, _ := strconv.ParseFloat(fields[at], 64)
		f.cpu += ticks / 100
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return f, err
	}
	for _, line := range strings.Split(string(status), "\n") {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(words[1], 64)
		switch words[0] {
		case "VmRSS:":
			f.rss = kib / 1024
		case "VmHWM:":
			f.peak = kib / 1024
		}
	}
	return f, nil
}

func ioctl(file *os.File, request uintptr, at unsafe.Pointer) error {
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(at)); code != 0 {
		return code
	}
	return nil
}

func terminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	var unlocked, number int32
	if err = ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)); err != nil {
		return nil, nil, err
	}
	if err = ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number)); err != nil {
		return nil, nil, err
	}
	size := [4]uint16{height, width}
	if err = ioctl(master, syscall.TIOCSWINSZ, unsafe.Pointer(&size)); err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return master, slave, err
}

// screen is as much of a terminal as these programs use.
type screen struct {
	cells    [height][width]rune
	row, col int
	pending  []byte
}

func (s *screen) clear() {
	for r := range s.cells {
		for c := range s.cells[r] {
			s.cells[r][c] = ' '
		}
	}
}

func (s *screen) text() string {
	var out strings.Builder
	for _, row := range s.cells {
		out.WriteString(strings.TrimRight(string(row[:]), " "))
		out.WriteByte('\n')
	}
	return out.String()
}

var sequence = regexp.MustCompile(`^\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+#%][^\x1b]|[^\[\]P_^X()*+#%])`)

func (s *screen) write(back io.Writer, bytes []byte) {
	bytes = append(s.pending, bytes...)
	s.pending = nil
	for len(bytes) > 0 {
		switch first := bytes[0]; {
		case first == 0x1b:
			found := sequence.FindSubmatch(bytes)
			if found == nil {
				if len(bytes) < 4096 {
					s.pending = append([]byte(nil), bytes...)
					return
				}
				bytes = bytes[1:]
				continue
			}
			if len(found[2]) > 0 {
				s.control(back, string(found[1]), found[2][0])
			}
			bytes = bytes[len(found[0]):]
			continue
		case first == '\r':
			s.col = 0
		case first == '\n':
			s.row = min(s.row+1, height-1)
		case first == '\b':
			s.col = max(s.col-1, 0)
		case first >= 0x20:
			size := 1
			for _, lead := range []struct{ mask, mark byte }{{0xe0, 0xc0}, {0xf0, 0xe0}, {0xf8, 0xf0}} {
				if first >= 0xc0 {
					size++
					if first&lead.mask == lead.mark {
						break
					}
				}
			}
			if len(bytes) < size {
				s.pending = append([]byte(nil), bytes...)
				return
			}
			if s.col < width {
				s.cells[s.row][s.col] = []rune(string(bytes[:size]))[0]
				s.col++
			}
			bytes = bytes[size:]
			continue
		}
		bytes = bytes[1:]
	}
}

func (s *screen) control(back io.Writer, arguments string, final byte) {
	numbers := strings.Split(arguments, ";")
	number := func(at, without int) int {
		if at < len(numbers) {
			if n, err := strconv.Atoi(numbers[at]); err == nil {
				return max(n, without)
			}
		}
		return without
	}
	switch final {
	case 'H', 'f':
		s.row, s.col = min(number(0, 1), height)-1, min(number(1, 1), width)-1
	case 'A':
		s.row = max(s.row-number(0, 1), 0)
	case 'B':
		s.row = min(s.row+number(0, 1), height-1)
	case 'C':
		s.col = min(s.col+number(0, 1), width-1)
	case 'D':
		s.col = max(s.col-number(0, 1), 0)
	case 'G':
		s.col = min(number(0, 1), width) - 1
	case 'd':
		s.row = min(number(0, 1), height) - 1
	case 'J':
		if number(0, 0) >= 2 {
			s.clear()
			return
		}
		for r := s.row + 1; r < height; r++ {
			for c := range s.cells[r] {
				s.cells[r][c] = ' '
			}
		}
		s.erase(0)
	case 'K':
		s.erase(number(0, 0))
	case 'X':
		for c := s.col; c < min(s.col+number(0, 1), width); c++ {
			s.cells[s.row][c] = ' '
		}
	case 'c':
		// Who asks what terminal this is gets an answer.
		fmt.Fprint(back, "\x1b[?62;22c")
	case 'n':
		fmt.Fprintf(back, "\x1b[%d;%dR", s.row+1, s.col+1)
	}
}

func (s *screen) erase(which int) {
	from, to := s.col, width
	if which == 1 {
		from, to = 0, s.col+1
	} else if which == 2 {
		from = 0
	}
	for c := from; c < to; c++ {
		s.cells[s.row][c] = ' '
	}
}

package measure

import (
	"fmt"
	"os/exec"
	"time"
)

// Usage is what a command took from start to end.
type Usage struct {
	Wall, CPU   time.Duration
	ResidentMax int64 // bytes; 0 when not known
}

// RunToEnd runs a command to its end. Its output is part of the error when it fails.
func RunToEnd(cmd *exec.Cmd) (Usage, error) {
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	u := Usage{Wall: time.Since(begun)}
	if err != nil {
		return u, fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	u.CPU, u.ResidentMax = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), residentMax(cmd.ProcessState)
	return u, nil
}

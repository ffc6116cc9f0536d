//go:build !unix

package measure

import "os"

// residentMax is not known here.
func residentMax(*os.ProcessState) int64 { return 0 }

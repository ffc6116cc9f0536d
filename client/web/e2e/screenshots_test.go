package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Sizes of the board on the screenshots.
const (
	painters    = 60
	paintedOver = time.Hour // the picture came about within the last of these
)

// TestScreenshots takes the screenshots of README.md into the folder that PLACED_SCREENSHOTS names (`make screenshots`): a board
// with the picture of testdata/board.png on it, imported as a history of one placement a tile.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("PLACED_SCREENSHOTS")
	if folder == "" {
		folder = t.ArtifactDir()
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := startServerOn(t, 5*time.Minute, func(program, data string) {
		size, history := paint(t)
		out, err := exec.CommandContext(t.Context(), program, "import", history, "--data-dir", data, "--quiet",
			fmt.Sprint("--width=", size.X), fmt.Sprint("--height=", size.Y), "--cooldown=5m").CombinedOutput()
		if err != nil {
			t.Fatalf("import: %v\n%s", err, out)
		}
	})
	runScript(t, s, "screenshots.mjs", folder)
	for _, name := range []string{"board.png", "phone.png"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("no screenshot: %v", err)
		}
	}
}

// paint writes a history that ends with the picture, and returns its size.
func paint(t *testing.T) (size image.Point, path string) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "board.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoded, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	picture, ok := decoded.(*image.Paletted) // its palette is that of the board
	if !ok {
		t.Fatalf("the picture is a %T", decoded)
	}
	size = picture.Rect.Size()
	history := bytes.NewBufferString("ts,user,x_coordinate,y_coordinate,color\n")
	now := time.Now()
	for i := range size.X * size.Y {
		x, y := i%size.X, i/size.X
		at := now.Add(-paintedOver * time.Duration(i) / time.Duration(size.X*size.Y))
		fmt.Fprintf(history, "%d,painter %d,%d,%d,%d\n", at.UnixMilli(), (x/7+y/5*11)%painters, x, y, picture.ColorIndexAt(x, y))
	}
	path = filepath.Join(t.TempDir(), "picture.csv")
	if err := os.WriteFile(path, history.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return size, path
}

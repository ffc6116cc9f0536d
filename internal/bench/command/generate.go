package command

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
)

// The history of 2017, in numbers.
const (
	historyBegin  = 1490918688000    // Unix milliseconds, 2017-03-31
	historyMs     = 72 * 3600 * 1000 // how long it went on
	historyHeader = "ts,user,x_coordinate,y_coordinate,color\n"
	hotPortion    = 5   // one placement in so many goes to a hot spot
	hotSide       = 100 // tiles of a hot spot's side
)

type generateCommand struct {
	Out    string `help:"File to write; - for standard output." required:"" placeholder:"FILE"`
	Rows   int64  `help:"Placements." default:"16500000"`
	Users  int64  `help:"People who place." default:"1166924"`
	Seed   uint64 `help:"Seed: the same seed makes the same file." default:"1"`
	Sorted bool   `help:"In the order of time, as one of the two copies of 2017; otherwise in no order."`
}

func (c *generateCommand) Run(out *output) (err error) {
	if c.Rows < 1 || c.Users < 1 {
		return usageError(errors.New("a history has at least one row and one user"))
	}
	to := out.out
	if c.Out != "-" {
		file, err := os.Create(c.Out)
		if err != nil {
			return fmt.Errorf("generate: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	if err := generate(to, c); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	return nil
}

// generate writes a history of the shape of 2017: whole seconds over three days, users of whom some place much more than others,
// tiles all over 1000x1000 with a hot spot in the middle.
func generate(to io.Writer, c *generateCommand) error {
	w := bufio.NewWriterSize(to, 1<<20)
	if _, err := w.WriteString(historyHeader); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(c.Seed, 2017))
	line := make([]byte, 0, 128)
	for i := range c.Rows {
		second := r.Int64N(historyMs / 1000)
		if c.Sorted {
			second = i * (historyMs / 1000) / c.Rows
		}
		user := int64(float64(c.Users) * r.Float64() * r.Float64())
		x, y := r.IntN(boardSide), r.IntN(boardSide)
		if r.IntN(hotPortion) == 0 {
			x, y = boardSide/2+r.IntN(hotSide), boardSide/2+r.IntN(hotSide)
		}
		line = strconv.AppendInt(line[:0], historyBegin+second*1000, 10)
		line = append(appendUserHash(append(line, ','), c.Seed, uint64(user)), ',')
		line = append(strconv.AppendInt(line, int64(x), 10), ',')
		line = append(strconv.AppendInt(line, int64(y), 10), ',')
		line = append(strconv.AppendInt(line, int64(r.IntN(16)), 10), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Flush()
}

// appendUserHash appends the 28 characters that stand for a user.
func appendUserHash(b []byte, seed, user uint64) []byte {
	var hash [20]byte
	r := rand.NewPCG(seed, user)
	binary.LittleEndian.PutUint64(hash[:], r.Uint64())
	binary.LittleEndian.PutUint64(hash[8:], r.Uint64())
	binary.LittleEndian.PutUint32(hash[16:], uint32(r.Uint64()))
	return base64.StdEncoding.AppendEncode(b, hash[:])
}

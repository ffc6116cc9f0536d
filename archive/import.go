package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// ImportConfig says what is imported and what the board becomes.
type ImportConfig struct {
	Paths      []string
	Layout     *Layout        // nil: that of the files' shape
	Settings   board.Settings // of the board when it opens; width, height and palette come from the layout
	By         string         // for the audit
	NowMs      int64          // of the settings and the board's creation
	TempDir    string         // for sorting; "" for the system's. It takes 24 bytes a placement
	BadRowsMax int64          // with more the import ends before anything is written; negative: 1,000, or one row in a hundred
	// Progress is told how far it is, many times a second. Nil: nobody listens.
	Progress func(Progress)
	// BadRow is told of every row that is left out. Nil: nobody listens.
	BadRow func(*RowError)
}

// Bad rows that an import takes for granted.
const (
	badRowsFree    = 1000 // of any input
	badRowsPortion = 100  // one in so many
)

// Validate returns what is missing or impossible.
func (c *ImportConfig) Validate() error {
	var errs []error
	if len(c.Paths) == 0 {
		errs = append(errs, errors.New("no files are named"))
	}
	if len(c.Paths) >= 1<<(64-positionLineBits) {
		errs = append(errs, fmt.Errorf("%d files are too many", len(c.Paths)))
	}
	if c.NowMs <= 0 {
		errs = append(errs, errors.New("the time is missing"))
	}
	return errors.Join(append(errs, c.Settings.Validate())...)
}

// Phase is a part of an import or export.
type Phase string

// The phases of an import.
const (
	PhaseRead  Phase = "reading"
	PhaseWrite Phase = "writing"
	PhaseUsers Phase = "users"
)

// Progress tells how far a phase is: bytes of files, placements, or users.
type Progress struct {
	Phase       Phase
	Done, Total int64
}

// ImportReport tells what an import did.
type ImportReport struct {
	Shape      Shape
	Rows       int64 // of the files, good ones
	BadRows    int64
	Placements int64 // of the good rows: an area has several
	Users      int64
	Blocks     int
	FirstMs    int64 // of the placements
	LastMs     int64
	Resumed    bool // an interrupted import of the same files went on
	Epoch      uint64
}

// Errors of Import.
var (
	// ErrBoardExists says that the store holds a board that is not waiting for this import.
	ErrBoardExists = errors.New("the store holds a board already")
	// ErrOtherImport says that another import was begun and not ended.
	ErrOtherImport = errors.New("an import of other files, or onto another board, was interrupted")
	// ErrBadRows says that too many rows cannot be used.
	ErrBadRows = errors.New("too many rows cannot be used")
	// ErrNoRows says that no row can be used.
	ErrNoRows = errors.New("no row can be used")
)

// Import reads histories and makes a board of them. The store must hold no board, or one whose import was interrupted: with the
// same files that one goes on where it ended. All files are read and sorted before anything is written, so bad files leave the
// store as it was; then the board is created in board.StateLoading with a new epoch, filled, and opened by its last commit.
//
// Placements of one time keep the order of the files; the order of times rules otherwise. Memory is bounded by SortRowsMax,
// and by about 100 bytes a user.
func Import(ctx context.Context, st store.Store, c ImportConfig) (ImportReport, error) {
	if err := c.Validate(); err != nil {
		return ImportReport{}, fmt.Errorf("archive: import: %w", err)
	}
	im := &importer{store: st, config: &c, userNumbers: map[board.UserID]uint32{}}
	if err := im.run(ctx); err != nil {
		return im.report, fmt.Errorf("archive: import: %w", err)
	}
	return im.report, nil
}

type importer struct {
	store  store.Store
	config *ImportConfig
	report ImportReport
	layout Layout
	sorter *sorter

	userNumbers map[board.UserID]uint32 // while reading
	users       []board.UserID          // by number
	firstBad    *RowError
}

func (im *importer) run(ctx context.Context) (err error) {
	existing, err := ReadSettings(ctx, im.store)
	if err != nil {
		return err
	}
	if n := len(existing); n > 0 && existing[n-1].State != board.StateLoading {
		return ErrBoardExists
	}
	if err := im.checkFiles(); err != nil {
		return err
	}
	if im.sorter, err = newSorter(im.config.TempDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, im.sorter.close()) }()
	if err := im.read(ctx); err != nil {
		return err
	}
	im.userNumbers = nil
	records, err := im.sorter.finish()
	if err != nil {
		return err
	}
	im.report.Placements, im.report.Users = im.sorter.count, int64(len(im.users))
	loading, err := im.begin(ctx, existing)
	if err != nil {
		return err
	}
	l := newLoader(ctx, im)
	if err := l.load(records); err != nil {
		return err
	}
	return im.open(ctx, loading)
}

// checkFiles looks at the beginning of every file, so that a wrong one ends the import at once.
func (im *importer) checkFiles() error {
	for i, path := range im.config.Paths {
		r, err := OpenReader(path, i+1, im.config.Layout)
		if err != nil {
			return err
		}
		shape := r.Shape()
		if err := r.Close(); err != nil {
			return err
		}
		if im.report.Shape != "" && shape != im.report.Shape {
			return fmt.Errorf("%s has the shape of %s, %s that of %s: import them apart", path, shape, im.config.Paths[0], im.report.Shape)
		}
		im.report.Shape = shape
	}
	im.layout = im.report.Shape.Layout()
	if im.config.Layout != nil {
		im.layout = *im.config.Layout
	}
	s := im.settings(board.StateOpen)
	return s.Validate()
}

// settings returns the board's settings in a state.
func (im *importer) settings(state board.State) board.Settings {
	s := im.config.Settings
	s.Width, s.Height, s.Palette, s.State = im.layout.Width, im.layout.Height, im.layout.Palette, state
	return s
}

// read reads every file into the sorter.
func (im *importer) read(ctx context.Context) error {
	var total, before int64
	for _, path := range im.config.Paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		total += info.Size()
	}
	for i, path := range im.config.Paths {
		r, err := OpenReader(path, i+1, &im.layout)
		if err != nil {
			return err
		}
		err = im.readFile(ctx, r, func() { im.progress(PhaseRead, before+r.ReadBytes(), total) })
		before += r.ReadBytes()
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	im.progress(PhaseRead, total, total)
	if im.report.Rows == 0 {
		if im.firstBad != nil {
			return fmt.Errorf("%w, of %d; the first: %w", ErrNoRows, im.report.BadRows, im.firstBad)
		}
		return fmt.Errorf("%w: there is none", ErrNoRows)
	}
	return im.tooManyBad(im.report.Rows)
}

// progressRows is after how many rows or placements the progress is told.
const progressRows = 1 << 14

func (im *importer) readFile(ctx context.Context, r *Reader, progress func()) error {
	var row Row
	for n := 0; ; n++ {
		if n%progressRows == 0 {
			progress()
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		switch err := r.Next(&row); {
		case err == nil:
			if err := im.addRow(&row); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			return nil
		default:
			bad, ok := errors.AsType[*RowError](err)
			if !ok {
				return err
			}
			if err := im.badRow(bad); err != nil {
				return err
			}
		}
	}
}

func (im *importer) badRow(bad *RowError) error {
	im.report.BadRows++
	if im.firstBad == nil {
		im.firstBad = bad
	}
	if im.config.BadRow != nil {
		im.config.BadRow(bad)
	}
	if im.config.BadRowsMax >= 0 {
		return im.tooManyBad(0)
	}
	return nil
}

// tooManyBad judges the bad rows so far beside a number of good ones.
func (im *importer) tooManyBad(rows int64) error {
	most := im.config.BadRowsMax
	if most < 0 {
		most = max(badRowsFree, rows/badRowsPortion)
	}
	if im.report.BadRows > most {
		return fmt.Errorf("%w: %d, at most %d may be left out; the first: %w", ErrBadRows, im.report.BadRows, most, im.firstBad)
	}
	return nil
}

func (im *importer) addRow(row *Row) error {
	number, ok := im.userNumbers[row.User]
	if !ok {
		if len(im.users) >= UsersMax {
			return fmt.Errorf("more than %d users", UsersMax)
		}
		number = uint32(len(im.users))
		name := board.UserID(append([]byte(nil), row.User...)) // the row's holds its whole line
		im.users = append(im.users, name)
		im.userNumbers[name] = number
	}
	if im.report.Rows == 0 {
		im.report.FirstMs, im.report.LastMs = row.AtMs, row.AtMs
	}
	im.report.Rows++
	im.report.FirstMs, im.report.LastMs = min(im.report.FirstMs, row.AtMs), max(im.report.LastMs, row.AtMs)
	if im.sorter.count > PlacementsMax {
		return fmt.Errorf("more than %d placements", PlacementsMax)
	}
	if row.Area.Rect.Width*row.Area.Rect.Height == 1 {
		at := board.Point{X: row.Area.Rect.X, Y: row.Area.Rect.Y}
		return im.sorter.add(newRecord(row.AtMs, row.Position, at, row.Colour, number))
	}
	return row.Area.Tiles(func(at board.Point) error {
		return im.sorter.add(newRecord(row.AtMs, row.Position, at, row.Colour, number))
	})
}

// PlacementsMax bounds an import: areas make many placements of a row.
const PlacementsMax = 1_000_000_000

func (im *importer) progress(phase Phase, done, total int64) {
	if im.config.Progress != nil {
		im.config.Progress(Progress{Phase: phase, Done: done, Total: total})
	}
}

// begin creates the board in state loading, or finds that it was created for this very import.
func (im *importer) begin(ctx context.Context, existing []board.SettingsRecord) (board.SettingsRecord, error) {
	record := board.SettingsRecord{
		Settings: im.settings(board.StateLoading), By: im.config.By, AtMs: im.config.NowMs,
		Why: fmt.Sprintf("import %016x: %d placements of %d files of %s", im.sorter.digest.Sum64(), im.report.Placements, len(im.config.Paths), im.report.Shape),
	}
	record.Version = 1
	meta, err := im.store.Meta(ctx)
	if errors.Is(err, store.ErrNotFound) {
		meta = store.Meta{Format: store.FormatVersion, Epoch: rand.Uint64(), Shards: board.UserShards, CreatedAtMs: im.config.NowMs}
		err = im.store.Create(ctx, meta)
	}
	if err != nil {
		return record, err
	}
	im.report.Epoch = meta.Epoch
	if len(existing) == 0 {
		return record, im.commitSettings(ctx, record)
	}
	found := existing[len(existing)-1]
	if found.Why != record.Why || found.Width != record.Width || found.Height != record.Height || !slices.Equal(found.Palette, record.Palette) {
		return record, fmt.Errorf("%w: %q is not ended, this is %q", ErrOtherImport, found.Why, record.Why)
	}
	im.report.Resumed = true
	return found, nil
}

// open makes the settings under which the board opens: the last commit of an import.
func (im *importer) open(ctx context.Context, loading board.SettingsRecord) error {
	next := loading
	next.Settings = im.settings(board.StateOpen)
	next.Version = loading.Version + 1
	next.AtMs = max(im.config.NowMs, loading.AtMs)
	return im.commitSettings(ctx, next)
}

func (im *importer) commitSettings(ctx context.Context, r board.SettingsRecord) error {
	value, err := store.EncodeSettings(r)
	if err != nil {
		return err
	}
	c := &store.Commit{
		Partition: store.Settings(), Head: store.Head{Version: r.Version, Attempt: attempt(), Owner: store.Owner{Address: importOwner, SettingsVersion: r.Version}},
		Rows: []store.Row{{Value: value}},
	}
	return commit(ctx, im.store, c)
}

// ReadSettings returns every version of a board's settings; none when there is no board.
func ReadSettings(ctx context.Context, st Journals) ([]board.SettingsRecord, error) {
	var records []board.SettingsRecord
	for entry, err := range st.Journal(ctx, store.Settings(), 1) {
		var r board.SettingsRecord
		if err == nil {
			r, err = store.DecodeSettings(entry.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("archive: settings: %w", err)
		}
		records = append(records, r)
	}
	return records, nil
}

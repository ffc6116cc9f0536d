package board

import "fmt"

// Width is how many bits a colour takes in images and runs: 4 for palettes of up to 16 colours, else 8.
type Width uint8

// The two widths.
const (
	Width4 Width = 4
	Width8 Width = 8
)

// WidthFor returns the width that a palette of the given number of colours needs.
func WidthFor(colours int) Width {
	if colours <= 16 {
		return Width4
	}
	return Width8
}

// ImageBytes returns the size of a packed chunk image in bytes: 1,250 or 2,500.
func (w Width) ImageBytes() int { return ChunkTiles * int(w) / 8 }

// Tiles are the colours of one chunk, row by row.
type Tiles [ChunkTiles]Colour

// AppendImage appends the packed image of the chunk: with Width4 two tiles a byte, the left one in the high bits.
// Colours of 16 and more do not fit Width4 and are cut to their low bits: callers choose the width by WidthFor and Max.
func (t *Tiles) AppendImage(dst []byte, w Width) []byte {
	if w == Width8 {
		for _, c := range t {
			dst = append(dst, byte(c))
		}
		return dst
	}
	for i := 0; i < ChunkTiles; i += 2 {
		dst = append(dst, byte(t[i])<<4|byte(t[i+1])&0x0f)
	}
	return dst
}

// Max returns the highest colour on the chunk.
func (t *Tiles) Max() Colour {
	var most Colour
	for _, c := range t {
		most = max(most, c)
	}
	return most
}

// SetImage fills the chunk from a packed image.
func (t *Tiles) SetImage(image []byte, w Width) error {
	if w != Width4 && w != Width8 {
		return fmt.Errorf("board: chunk image of width %d", w)
	}
	if len(image) != w.ImageBytes() {
		return fmt.Errorf("board: chunk image of %d bytes, want %d", len(image), w.ImageBytes())
	}
	if w == Width8 {
		for i, b := range image {
			t[i] = Colour(b)
		}
		return nil
	}
	for i, b := range image {
		t[2*i] = Colour(b >> 4)
		t[2*i+1] = Colour(b & 0x0f)
	}
	return nil
}

// Hash returns the XOR of the hashes of the chunk's tiles.
func (t *Tiles) Hash(c ChunkID) uint64 {
	var h uint64
	for i, colour := range t {
		if colour != 0 {
			h ^= TileHash(c.Point(i), colour)
		}
	}
	return h
}

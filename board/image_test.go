package board

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func drawTiles(t *rapid.T, colours int) *Tiles {
	var tiles Tiles
	fill := Colour(rapid.IntRange(0, colours-1).Draw(t, "fill"))
	for i := range tiles {
		tiles[i] = fill
	}
	for range rapid.IntRange(0, 50).Draw(t, "changes") {
		tiles[rapid.IntRange(0, ChunkTiles-1).Draw(t, "tile")] = Colour(rapid.IntRange(0, colours-1).Draw(t, "colour"))
	}
	return &tiles
}

func TestImagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom([]Width{Width4, Width8}).Draw(t, "width")
		tiles := drawTiles(t, map[Width]int{Width4: 16, Width8: 256}[w])
		prefix := []byte("kept")
		image := tiles.AppendImage(bytes.Clone(prefix), w)
		if !bytes.HasPrefix(image, prefix) || len(image)-len(prefix) != w.ImageBytes() {
			t.Fatalf("%d bytes appended, want %d", len(image)-len(prefix), w.ImageBytes())
		}
		var again Tiles
		if err := again.SetImage(image[len(prefix):], w); err != nil || again != *tiles {
			t.Fatalf("the image does not give the tiles back: %v", err)
		}
	})
}

func TestImageLayout(t *testing.T) {
	var tiles Tiles
	tiles[0], tiles[1], tiles[2], tiles[ChunkTiles-1] = 1, 2, 15, 9
	narrow := tiles.AppendImage(nil, Width4)
	if narrow[0] != 0x12 || narrow[1] != 0xf0 || narrow[1249] != 0x09 || len(narrow) != 1250 {
		t.Errorf("width 4: %d bytes, %x ... %x", len(narrow), narrow[:2], narrow[len(narrow)-1])
	}
	tiles[3] = 255
	wide := tiles.AppendImage(nil, Width8)
	if !bytes.Equal(wide[:4], []byte{1, 2, 15, 255}) || wide[2499] != 9 || len(wide) != 2500 {
		t.Errorf("width 8: %d bytes, %x ... %x", len(wide), wide[:4], wide[len(wide)-1])
	}
	if tiles.Max() != 255 || new(Tiles).Max() != 0 {
		t.Errorf("highest colour %d, want 255", tiles.Max())
	}
}

func TestImagesOfTheWrongSizeAreRefused(t *testing.T) {
	for _, c := range []struct {
		bytes int
		width Width
	}{{0, Width4}, {1249, Width4}, {1251, Width4}, {2500, Width4}, {1250, Width8}, {2499, Width8}, {2501, Width8}, {0, 0}, {625, 2}, {1250, 5}} {
		tiles := Tiles{7}
		if err := tiles.SetImage(make([]byte, c.bytes), c.width); err == nil || tiles[0] != 7 {
			t.Errorf("%d bytes at width %d: error %v, first tile %d", c.bytes, c.width, err, tiles[0])
		}
	}
}

func TestWidthFor(t *testing.T) {
	for colours, want := range map[int]Width{2: Width4, 16: Width4, 17: Width8, 256: Width8} {
		if got := WidthFor(colours); got != want {
			t.Errorf("%d colours need width %d, got %d", colours, want, got)
		}
	}
}

func FuzzSetImage(f *testing.F) {
	f.Add(make([]byte, 1250), uint8(4))
	f.Add(bytes.Repeat([]byte{0xff}, 2500), uint8(8))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, image []byte, width uint8) {
		var tiles Tiles
		if err := tiles.SetImage(image, Width(width)); err != nil {
			return
		}
		if got := tiles.AppendImage(nil, Width(width)); !bytes.Equal(got, image) {
			t.Errorf("another image came out")
		}
	})
}

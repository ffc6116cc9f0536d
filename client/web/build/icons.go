package main

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
)

// iconSides are the sides of the icons that the manifest names, in pixels.
var iconSides = []int{192, 512}

// writeIcons draws the icon of icon.svg as PNG files: four tiles on a light ground, within the part that no launcher's mask cuts.
func writeIcons(dir string) error {
	for _, side := range iconSides {
		if err := writePNG(filepath.Join(dir, fmt.Sprintf("icon-%d.png", side)), icon(side)); err != nil {
			return err
		}
	}
	return nil
}

func icon(side int) image.Image {
	palette := color.Palette{
		color.RGBA{0xf4, 0xf6, 0xfa, 0xff},
		color.RGBA{0xe5, 0, 0, 0xff},
		color.RGBA{0xe5, 0xd9, 0, 0xff},
		color.RGBA{0, 0x83, 0xc7, 0xff},
		color.RGBA{0x02, 0xbe, 0x01, 0xff},
	}
	img := image.NewPaletted(image.Rect(0, 0, side, side), palette)
	edge, tile, gap := side*22/100, side*26/100, side*4/100
	for i := range 4 {
		x, y := edge+(i%2)*(tile+gap), edge+(i/2)*(tile+gap)
		draw.Draw(img, image.Rect(x, y, x+tile, y+tile), image.NewUniform(palette[i+1]), image.Point{}, draw.Src)
	}
	return img
}

func writePNG(name string, img image.Image) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := png.Encode(f, img); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}

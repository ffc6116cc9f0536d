package store

import (
	"encoding/json"
	"fmt"

	"github.com/placed-board/placed/board"
)

// EncodeSettings encodes one version for the settings journal, as JSON. An error says that it is too large.
func EncodeSettings(r board.SettingsRecord) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("store: encode settings: %w", err)
	}
	if len(b) > CommitRowBytesMax {
		return nil, fmt.Errorf("store: settings of %d bytes are larger than %d: shorten the palette's names or the protected areas",
			len(b), CommitRowBytesMax)
	}
	return b, nil
}

// DecodeSettings decodes one version; an error wraps ErrCorrupt.
func DecodeSettings(b []byte) (board.SettingsRecord, error) {
	var r board.SettingsRecord
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("store: decode settings: %w: %w", ErrCorrupt, err)
	}
	return r, nil
}

package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

// signer makes and checks session tokens: base64url of version, flags, expiry (Unix seconds), 8 random bytes, the user's
// name, and the HMAC-SHA256 of a fixed text and all of these. The key never leaves the node.
type signer struct {
	key    []byte
	domain string
}

// newSigner returns the signer of boards with one way to sign in: a token of another way is not good after a change, or somebody
// who chose a name in the open would be the guest of that name.
func newSigner(key []byte, auth Auth) *signer {
	domain := tokenDomain
	if auth != AuthOpen {
		domain += string(auth) + "\n"
	}
	return &signer{key: append([]byte(nil), key...), domain: domain}
}

// pass is what a token says.
type pass struct {
	user      board.UserID
	anonymous bool
	expires   time.Time
}

const (
	tokenVersion     = 1
	tokenAnonymous   = 1 << 0
	tokenHeaderBytes = 1 + 1 + 8 + 8
	tokenMacBytes    = sha256.Size
	// tokenTextMax is the longest token in characters.
	tokenTextMax = (tokenHeaderBytes + board.UserBytesMax + tokenMacBytes + 2) / 3 * 4
	// tokenLife is how long a token is good for.
	tokenLife = 180 * 24 * time.Hour
	// tokenDomain keeps signatures of this kind apart from any other use of the key.
	tokenDomain = "placed session token v1\n"
)

// Errors of signer.open.
var (
	errTokenForged  = errors.New("transport: the token was not made here")
	errTokenExpired = errors.New("transport: the token has expired")
)

func (s *signer) mac(payload []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(s.domain))
	h.Write(payload)
	return h.Sum(nil)
}

// seal makes a token for the user that ends at expires.
func (s *signer) seal(user board.UserID, anonymous bool, expires time.Time) string {
	b := make([]byte, tokenHeaderBytes, tokenHeaderBytes+len(user)+tokenMacBytes)
	b[0] = tokenVersion
	if anonymous {
		b[1] = tokenAnonymous
	}
	binary.BigEndian.PutUint64(b[2:], uint64(expires.Unix()))
	rand.Read(b[10:18])
	b = append(b, user...)
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(b)...))
}

// open checks a token and returns whose it is.
func (s *signer) open(token string, now time.Time) (pass, error) {
	if len(token) > tokenTextMax {
		return pass{}, errTokenForged
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) <= tokenHeaderBytes+tokenMacBytes {
		return pass{}, errTokenForged
	}
	payload, mac := b[:len(b)-tokenMacBytes], b[len(b)-tokenMacBytes:]
	if !hmac.Equal(mac, s.mac(payload)) || payload[0] != tokenVersion {
		return pass{}, errTokenForged
	}
	expires := int64(binary.BigEndian.Uint64(payload[2:]))
	if now.Unix() >= expires {
		return pass{}, errTokenExpired
	}
	user, err := board.ParseUserID(string(payload[tokenHeaderBytes:]))
	if err != nil {
		return pass{}, errTokenForged
	}
	return pass{user: user, anonymous: payload[1]&tokenAnonymous != 0, expires: time.Unix(expires, 0)}, nil
}

// LoadSecret returns the secret kept in the file, as text of at least 64 hexadecimal digits that stand for 32 random bytes; a
// missing file is made first, readable by its owner only. A file that others may read is refused: its secret is none.
func LoadSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeSecret(path); err != nil {
			return "", fmt.Errorf("transport: make secret: %w", err)
		}
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("transport: read secret: %w", err)
	}
	if info, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("transport: read secret: %w", err)
	} else if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return "", fmt.Errorf("transport: secret %s may be read by others (mode %#o): chmod 600 it, or better delete it for a new one", path, mode)
	}
	secret := strings.TrimSpace(string(b))
	if len(secret) < SessionKeyBytes {
		return "", fmt.Errorf("transport: secret %s is shorter than %d characters", path, SessionKeyBytes)
	}
	return secret, nil
}

// makeSecret writes a new secret under another name and links it to path, so that of two processes that do so at once both
// read the same, and nobody reads half of one.
func makeSecret(path string) error {
	var secret [32]byte
	rand.Read(secret[:])
	tmp, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(hex.EncodeToString(secret[:]) + "\n")
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return os.Rename(tmp.Name(), path) // a file system without links
	}
	return nil
}

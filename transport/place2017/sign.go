package place2017

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/placed-board/placed/board"
)

// urlLife is how long the address of the websocket in a page is good for.
const urlLife = time.Hour

// Fixed texts that keep signatures of one kind apart from those of any other.
const (
	modhashDomain = "placed 2017 modhash v1\n"
	urlDomain     = "placed 2017 websocket v1\n"
)

// modhashBytes is half the number of hexadecimal digits of a modhash; those of 2017 had 50 characters too.
const modhashBytes = 25

func (f *Face) mac(domain string, payload []byte) []byte {
	h := hmac.New(sha256.New, f.cfg.Key)
	h.Write([]byte(domain))
	h.Write(payload)
	return h.Sum(nil)
}

// Modhash returns what a user's requests carry besides the cookie. It proves that the sender could read an answer to the user,
// which no page of another site can.
func (f *Face) Modhash(user board.UserID) string {
	return hex.EncodeToString(f.mac(modhashDomain, []byte(user))[:modhashBytes])
}

func (f *Face) goodModhash(user board.UserID, modhash string) bool {
	return hmac.Equal([]byte(f.Modhash(user)), []byte(modhash))
}

// signURL returns the value of the parameter m of a websocket's address: when it ends (Unix seconds) and the proof that we said so.
func (f *Face) signURL(now time.Time) string {
	ends := binary.BigEndian.AppendUint64(nil, uint64(now.Add(urlLife).Unix()))
	return base64.RawURLEncoding.EncodeToString(append(ends, f.mac(urlDomain, ends)...))
}

// checkURL returns the reason for which a value of m is not good, or "".
func (f *Face) checkURL(m string, now time.Time) string {
	b, err := base64.RawURLEncoding.Strict().DecodeString(m)
	if err != nil || len(b) != 8+sha256.Size || !hmac.Equal(b[8:], f.mac(urlDomain, b[:8])) {
		return reasonSignature
	}
	if now.Unix() >= int64(binary.BigEndian.Uint64(b)) {
		return reasonExpired
	}
	return ""
}

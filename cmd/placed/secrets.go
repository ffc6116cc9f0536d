package main

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"

	"github.com/placed-board/placed/transport"
)

// Files of secrets in the data directory, made at the first start and readable by their owner only.
const (
	adminTokenFile = "admin-token"
	sessionKeyFile = "session-key"
)

// adminToken returns the operators' token: PLACED_ADMIN_TOKEN, or the one in the data directory, made when it is missing.
func adminToken(dir string) (string, error) {
	return secret("PLACED_ADMIN_TOKEN", filepath.Join(dir, adminTokenFile))
}

// sessionKey returns the key that signs sessions: PLACED_SESSION_KEY (hexadecimal), or the one in the data directory.
func sessionKey(dir string) ([]byte, error) {
	text, err := secret("PLACED_SESSION_KEY", filepath.Join(dir, sessionKeyFile))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(text)
	if err != nil {
		return nil, errors.New("the session key (PLACED_SESSION_KEY or " + filepath.Join(dir, sessionKeyFile) + ") is not hexadecimal")
	}
	return key, nil
}

// secret returns a secret from the environment, else from its file.
func secret(variable, path string) (string, error) {
	if v := os.Getenv(variable); v != "" {
		return v, nil
	}
	return transport.LoadSecret(path)
}

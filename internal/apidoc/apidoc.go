// Package apidoc holds answers of a server against an OpenAPI 3.1 document: status, headers, media type and the shape of JSON.
// Tests of everything that answers over HTTP use it.
package apidoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is a loaded document. Nobody changes it.
type Document struct{ *openapi3.T }

// loaded keeps documents: tests ask for the same one again and again.
var loaded sync.Map // path -> *Document

// Load reads a document and checks that it is one.
func Load(path string) (*Document, error) {
	if doc, ok := loaded.Load(path); ok {
		return doc.(*Document), nil
	}
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromFile(path)
	if err == nil {
		err = doc.Validate(loader.Context)
	}
	if err != nil {
		return nil, fmt.Errorf("apidoc: %s: %w", path, err)
	}
	d := &Document{doc}
	loaded.Store(path, d)
	return d, nil
}

// Operation returns the operation of a pattern of http.ServeMux with a method; nil when it is not described.
func (d *Document) Operation(pattern string) *openapi3.Operation {
	method, path, _ := strings.Cut(pattern, " ")
	item := d.Paths.Value(strings.TrimSuffix(path, "{$}"))
	if item == nil {
		return nil
	}
	return item.GetOperation(method)
}

// CheckAnswer holds one answer against its operation.
func CheckAnswer(operation *openapi3.Operation, res *http.Response, body []byte) error {
	documented := operation.Responses.Status(res.StatusCode)
	if documented == nil {
		documented = operation.Responses.Default()
		if res.StatusCode < 400 || documented == nil {
			return fmt.Errorf("status %d", res.StatusCode)
		}
	}
	for name, header := range documented.Value.Headers {
		value := res.Header.Get(name)
		if value == "" {
			if header.Value.Required {
				return fmt.Errorf("no header %s", name)
			}
			continue
		}
		if err := checkHeader(header.Value.Schema, value); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if len(documented.Value.Content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("a body where none is documented")
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("content type %q", res.Header.Get("Content-Type"))
	}
	media := documented.Value.Content[kind]
	if media == nil {
		return fmt.Errorf("content type %s", kind)
	}
	if media.Schema == nil {
		return nil
	}
	if kind != "application/x-ndjson" {
		return checkJSON(media.Schema, body)
	}
	for line := range bytes.Lines(body) {
		if err := checkJSON(media.Schema, line); err != nil {
			return err
		}
	}
	return nil
}

// CheckRequest holds a JSON body that was taken against its operation.
func CheckRequest(operation *openapi3.Operation, body []byte) error {
	return checkJSON(operation.RequestBody.Value.Content.Get("application/json").Schema, body)
}

// checkHeader takes a header for the JSON that it may be, else for a text.
func checkHeader(schema *openapi3.SchemaRef, value string) error {
	if schema.Value.Type != nil && schema.Value.Type.Is("integer") {
		return checkJSON(schema, []byte(value))
	}
	return schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
}

func checkJSON(schema *openapi3.SchemaRef, body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	var value any
	if err := dec.Decode(&value); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON value")
	}
	return schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
}

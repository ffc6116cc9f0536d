package board

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestRefusalsAreComplete reads the declared codes from the source, so that a code without a row is noticed.
func TestRefusalsAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "refusal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			declared++
		}
		return true
	})
	if declared != len(Refusals) || declared == 0 {
		t.Errorf("%d codes are declared, %d have a row", declared, len(Refusals))
	}
	label := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	labels, sentences := map[string]bool{}, map[string]bool{}
	for i, r := range Refusals {
		if int(r.Code) != i {
			t.Errorf("row %d holds code %d", i, r.Code)
		}
		if labels[r.Label] || sentences[r.Sentence] || !label.MatchString(r.Label) || len(r.Sentence) < 5 || !strings.HasSuffix(r.Sentence, ".") {
			t.Errorf("row %d: label %q, sentence %q", i, r.Label, r.Sentence)
		}
		labels[r.Label], sentences[r.Sentence] = true, true
		if refused := r.Status >= 400 && http.StatusText(r.Status) != ""; refused != (r.Code != CodeOK) {
			t.Errorf("%s has the status %d", r.Label, r.Status)
		}
		if r.Code.Refusal() != r || r.Code.String() != r.Label {
			t.Errorf("code %d finds %v", r.Code, r.Code.Refusal())
		}
	}
	if got := Code(len(Refusals)).Refusal().Code; got != CodeBadMessage {
		t.Errorf("an unknown code is shown as %v", got)
	}
}

func TestNames(t *testing.T) {
	for k, want := range map[Kind]string{KindUser: "user", KindClear: "clear", KindRollback: "rollback", KindRestore: "restore", KindImport: "import", 9: "kind(9)"} {
		if k.String() != want {
			t.Errorf("kind %d is called %q", k, k)
		}
	}
	for v, want := range map[Verdict]string{VerdictAccepted: "accepted", VerdictCharged: "charged", VerdictUnknown: "unknown", VerdictRefused: "refused", 9: "verdict(9)"} {
		if v.String() != want {
			t.Errorf("verdict %d is called %q", v, v)
		}
	}
}

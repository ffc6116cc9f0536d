//go:build unix

package system_test

import (
	"strings"
	"testing"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/client"
)

// TestPlanIsCarriedOutOnce lets the node die right before and right after the commit that carries a planned change out: after
// the restart it is carried out, and only once. A session that lives through all of it hears of each change.
func TestPlanIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	n := newCrashingNode(t, "--width", "100", "--height", "100", "--cooldown", "0s")
	n.start()
	session, err := client.Dial(t.Context(), n.url, client.Options{Mirror: true, Whole: true, Backoff: quickly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	n.ctl(nil, "settings", "plan", "add", "--at", "+300ms", "--frozen", "--why", "live")
	eventually(t, hearWithin, "the session to hear of a planned change", func() bool { return session.Settings().Frozen })
	if hello := session.Hello(); hello.Settings.Frozen {
		t.Error("the session heard of it by connecting anew")
	}
	n.stop()

	cooldowns := map[string]string{actors.CrashBeforeSettingsCommit: "1s", actors.CrashAfterSettingsCommit: "2s"}
	for point, cooldown := range cooldowns {
		n.crashAt(point + ":2") // the first is the plan itself
		n.start()
		n.ctl(nil, "settings", "plan", "add", "--at", "+300ms", "--cooldown", cooldown, "--why", point)
		n.awaitCrash(point)
		n.noCrash()
		n.start()
		eventually(t, hearWithin, "what was planned to be carried out", func() bool { return len(n.settings().Plan) == 0 })
		n.stop()
	}
	n.start()
	for point := range cooldowns {
		times := 0
		for _, r := range n.history() {
			if strings.HasPrefix(r.Why, "planned as ") && strings.HasSuffix(r.Why, point) {
				times++
			}
		}
		if times != 1 {
			t.Errorf("%s: carried out %d times", point, times)
		}
	}
	n.verify()
	n.stop()
}

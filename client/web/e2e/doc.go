// Package e2e drives the real page in a real Chromium against a real server. Its test builds and runs cmd/placed and hands
// node a script (page.test.mjs, people.test.mjs) that does what people do, with playwright-core steering the browser.
//
// It needs Node.js, Debian's Chromium (or the program that PLACED_CHROMIUM names) and the packages of package-lock.json:
// `make deps` installs all three. Screenshots of desktop and phone are the test's artifacts (go test -artifacts);
// TestScreenshots takes those of README.md (make screenshots).
package e2e

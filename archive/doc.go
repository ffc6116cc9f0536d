// Package archive takes a board's history out of the journals and puts one in: placements of a span merged by time, the board
// at a time, the readers and writers of the public CSV shapes of r/place, import and export.
//
// It knows a store and no actor: an import fills a board that nobody serves yet (board.StateLoading), an export reads journals
// that may grow meanwhile. Times are Unix milliseconds.
package archive

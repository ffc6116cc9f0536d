package wire

// Codes with which a node closes a session, as the number of the websocket close frame. docs/protocol.md tells what a client
// does on each.
const (
	CloseNormal    = 1000 // the client asked for it
	CloseProtocol  = 1002 // the websocket rules were broken: an unmasked frame, a reserved bit
	CloseText      = 1003 // a text message, where only binary ones are due
	CloseTooBig    = 1009 // a message above ClientMessageBytesMax
	CloseInternal  = 1011 // the node failed; connect again
	CloseRestart   = 1012 // the node goes down or was asked to drain; connect again at once, to whichever node answers
	CloseTryLater  = 1013 // too many sessions; connect again after a pause
	CloseFlood     = 4000 // messages kept coming above the rate in spite of notices; connect again after a pause
	CloseSilent    = 4001 // nothing was heard for too long, pongs included; connect again
	CloseMalformed = 4002 // too many messages that are not of this protocol: a faulty client, do not connect again by itself
	CloseSignedOut = 4003 // who the session was is not valid any more: sign in anew, then connect
)

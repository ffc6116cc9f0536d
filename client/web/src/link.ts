// A websocket as the session sees it: messages in and out, and one end.

import { socketURL } from "./api.ts";
import type { Link, LinkEvents } from "./session.ts";
import { decodeServer, encodeClient, OtherVersion, SUBPROTOCOL } from "./wire.ts";

const CLOSE_NORMAL = 1000;
const CLOSE_FAULTY = 4002; // the node would close a page like this one with it: out of date

export function connect(events: LinkEvents): Link {
  let over = false;
  const socket = new WebSocket(socketURL(), SUBPROTOCOL);
  socket.binaryType = "arraybuffer";
  const end = (code: number) => {
    if (over) return;
    over = true;
    socket.close(CLOSE_NORMAL);
    events.closed(code);
  };
  socket.onmessage = (e) => {
    if (over) return;
    let message;
    try {
      message = decodeServer(new Uint8Array(e.data as ArrayBuffer));
    } catch (err) {
      console.warn("placed:", err);
      end(err instanceof OtherVersion ? CLOSE_FAULTY : 0);
      return;
    }
    events.message(message);
  };
  socket.onclose = (e) => end(e.code);
  return {
    send(m) {
      if (!over && socket.readyState === WebSocket.OPEN) socket.send(encodeClient(m));
    },
    close() {
      over = true;
      socket.close(CLOSE_NORMAL);
    },
  };
}

vcl 4.1;

# Varnish in front of placed: people and programs come here, and the node is asked for the board about once a second however
# many they are. Put it into /etc/varnish/default.vcl (Varnish 6.0 or later), change the address, and start placed with
# --trusted-proxies=127.0.0.1/32 (the address that Varnish comes from). Varnish speaks no TLS: a terminator such as hitch or
# nginx stands before it. system_test/cache_test.go runs this very file.

import std;

backend default {
	.host = "127.0.0.1";
	.port = "8080";
	.first_byte_timeout = 10s;
	.between_bytes_timeout = 10s;
	.connect_timeout = 2s;
	.probe = {
		.url = "/readyz";
		.interval = 2s;
		.timeout = 2s;
		.window = 3;
		.threshold = 2;
		.initial = 2;
	}
}

sub vcl_recv {
	# Sessions go straight through.
	if (req.http.Upgrade ~ "(?i)websocket") {
		return (pipe);
	}
	if (req.method != "GET" && req.method != "HEAD") {
		return (pass);
	}
	# Everything that is the same for everybody and named by its path alone: the board, its picture, chunks, tile details, the
	# settings. Query strings, cookies and ranges are no part of it, so nobody can get past the cache with them.
	if (req.url ~ "^/api/v1/(board|board\.png|overview\.png|config|chunks/[0-9]+/[0-9]+|tiles/[0-9]+/[0-9]+)(\?|$)") {
		set req.url = regsub(req.url, "\?.*$", "");
		unset req.http.Cookie;
		unset req.http.Authorization;
		unset req.http.Range;
		# A healthy node's board may be as old as its own header says; that of a node that does not answer as old as it is.
		if (std.healthy(req.backend_hint)) {
			set req.grace = 30s;
		}
		return (hash);
	}
	# All the rest (the page, signing in, placements) goes through as it is.
	return (pass);
}

sub vcl_hash {
	# By path alone: the Host header is the asker's to choose.
	hash_data(req.url);
	return (lookup);
}

sub vcl_backend_response {
	if (beresp.status == 200 || beresp.status == 304) {
		# The last board stays visible for a day when the node does not answer; keep is for asking by its tag.
		set beresp.grace = 24h;
		set beresp.keep = 24h;
	} else if (bereq.is_bgfetch) {
		# An error never takes the place of a board.
		return (abandon);
	}
}

sub vcl_pipe {
	set bereq.http.Upgrade = req.http.Upgrade;
	set bereq.http.Connection = "Upgrade";
}

sub vcl_deliver {
	if (obj.hits > 0) {
		set resp.http.X-Cache = "HIT";
	} else {
		set resp.http.X-Cache = "MISS";
	}
	unset resp.http.Via;
	unset resp.http.X-Varnish;
}

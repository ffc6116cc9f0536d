# A container of placed: a static binary, run by a user of its own. Build it in this folder: docker build -t placed .
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /placed ./cmd/placed

FROM alpine:3.22
RUN adduser -D -H -u 10001 placed && mkdir /var/lib/placed && chown placed:placed /var/lib/placed
COPY --from=build /placed /usr/local/bin/placed
USER 10001:10001
# The public listener on every interface, so that a published port reaches it. The operators' one stays inside.
ENV PLACED_LISTEN=:8080 PLACED_ADMIN_LISTEN=localhost:8081 PLACED_DATA_DIR=/var/lib/placed
VOLUME /var/lib/placed
EXPOSE 8080
# Whether the process answers. Whether it may get people is /readyz: a node that waits for its store must not be killed for it.
HEALTHCHECK --interval=5s --timeout=2s --start-period=60s --retries=3 CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/livez"]
# placed parts from everybody within 26 s of SIGTERM: docker run --stop-timeout 90.
STOPSIGNAL SIGTERM
ENTRYPOINT ["placed"]
CMD ["serve"]

#!/usr/bin/env bash
# far.sh HTTP_READ FAR_LINK [DELAY_MS [MBIT_S [MEGABYTES]]]: http_read --far, with nginx in another network namespace, over a
# link with that round trip and rate (bench/far_link.cc), without and with TLS. Needs root, nginx, openssl, ip and
# /dev/net/tun; changes nothing outside of its namespaces. Then the first batch of 16 shards, by first_batch beside HTTP_READ.
set -euo pipefail
http_read=$1 far_link=$2 delay=${3:-50} rate=${4:-1000} megabytes=${5:-256}
client=mrc$$ server=mrs$$
folder=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  ip netns del "$client" 2>/dev/null || true
  ip netns del "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
skip() {
  echo "skipped: $*"
  exit 77
}
for program in ip nginx openssl; do command -v "$program" >/dev/null || skip "$program is not installed"; done
[[ -c /dev/net/tun ]] || skip "there is no /dev/net/tun"
{ ip netns add "$client" && ip netns add "$server"; } 2>/dev/null || skip "network namespaces are not permitted here"

"$far_link" "$client" "$server" "$delay" "$rate" >"$folder/link" &
started+=($!)
for _ in {1..50}; do grep -q ready "$folder/link" && break || sleep 0.1; done
for name in "$client" "$server"; do
  ip link set "$name" netns "$name"
  ip -n "$name" link set "$name" mtu 1500 txqueuelen 10000
  ip -n "$name" link set "$name" up
done
ip -n "$client" addr add 10.99.0.1 peer 10.99.0.2 dev "$client"
ip -n "$server" addr add 10.99.0.2 peer 10.99.0.1 dev "$server"

openssl req -x509 -newkey rsa:2048 -nodes -keyout "$folder/key.pem" -out "$folder/cert.pem" -days 2 -subj /CN=far \
  -addext subjectAltName=IP:10.99.0.2 2>/dev/null
truncate -s "${megabytes}M" "$folder/a.tar"
first_batch=$(dirname "$http_read")/first_batch
"$first_batch" make "$folder"
chmod 755 "$folder"
cat >"$folder/nginx.conf" <<CONF
daemon off; pid $folder/pid; error_log $folder/log; user root; worker_processes 1;
events {}
http {
  access_log off; sendfile on;
  server { listen 10.99.0.2:80; root $folder; }
  server { listen 10.99.0.2:443 ssl http2; ssl_certificate $folder/cert.pem; ssl_certificate_key $folder/key.pem; root $folder; }
}
CONF
ip netns exec "$server" nginx -c "$folder/nginx.conf" 2>/dev/null &
started+=($!)
for _ in {1..50}; do [[ -s $folder/pid ]] && break || sleep 0.1; done
control=$(ip netns exec "$server" cat /proc/sys/net/ipv4/tcp_congestion_control)
echo "$delay ms, $rate Mbit/s, packets of 1500 bytes, $control, send buffers up to $(ip netns exec "$server" cut -f3 /proc/sys/net/ipv4/tcp_wmem) bytes"
for scheme in http https; do
  echo "$scheme"
  ip netns exec "$client" "$http_read" --far "$scheme://10.99.0.2/a.tar" $((megabytes << 20)) "$folder/cert.pem"
  ip netns exec "$client" "$first_batch" "$scheme://10.99.0.2" "$folder/cert.pem"
done

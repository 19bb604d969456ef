#!/bin/sh
# Makes an authority and the certificates of two identities in the current folder. In a mesh, its authority signs them.
set -eu
key() { openssl ecparam -genkey -name prime256v1 -noout -out "$1.key"; }
key ca
openssl req -x509 -new -key ca.key -subj /O=mesh -days 30 -addext keyUsage=critical,keyCertSign -out ca.pem
for name in pay web; do
  key "$name"
  openssl req -new -key "$name.key" -subj "/O=mesh" -out "$name.csr"
  printf 'subjectAltName = critical, URI:spiffe://cluster.local/ns/shop/sa/%s\n' "$name" > "$name.ext"
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile "$name.ext" -out "$name.pem"
done

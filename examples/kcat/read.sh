#!/bin/sh
# Lists the topics of a broker and prints the last records of one; ./read.sh [HOST:PORT] [TOPIC] [RECORDS]
set -eu
kafka=${1:-127.0.0.1:9092}
topic=${2:-shop.public.orders}
records=${3:-5}
kcat -L -b "$kafka"
kcat -C -b "$kafka" -t "$topic" -o "-$records" -e -f 'offset %o at %T: key %K bytes, value %S bytes, headers %h\n'

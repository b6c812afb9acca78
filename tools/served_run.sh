# For tests of clients: serves a small run. Sourced; sets server (a process), address and key.
# start_served_run FOLDER TESSERA ROOT   in FOLDER, which is then the current one

# Its weights are random: what it says means nothing, but it says it to everybody alike.
start_served_run() {
  local tessera=$2 root=$3 i
  cd "$1"
  cat >run.toml <<'TOML'
[model]
layers = 2
hidden = 32
ffn = 48
heads = 4
kv_heads = 2
vocab = 256
init_std = 0.3

[train]
seq_len = 1024
micro_batch = 1
global_batch = 1
steps = 1

[data]
synth = { seed = 7, bytes = 20000 }

[logging]
run_dir = "run"
TOML
  rm -rf run
  "$tessera" -q train run.toml >train.log 2>&1 || { cat train.log; return 1; }

  key=0123456789abcdef0123456789abcdef
  : >out
  TESSERA_API_KEY=$key "$tessera" serve run --port 0 --chat-template "$root/tests/data/templates/chatml.jinja" >out 2>err &
  server=$!
  trap 'kill -9 $server 2>/dev/null || true' EXIT
  for ((i = 0; i < 600; ++i)); do
    if grep -q '^listening on ' out || ! kill -0 $server 2>/dev/null; then break; fi
    sleep 0.1
  done
  address=$(sed -n 's/^listening on //p' out)
  [[ -n $address ]] || { cat err; return 1; }
}

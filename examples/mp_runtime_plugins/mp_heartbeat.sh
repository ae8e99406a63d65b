#!/bin/bash
# A runtime plugin in Bash: reads its configuration with jq, then says every 30 seconds that it
# lives. Every line is in the server's log as `[mp_heartbeat.sh] <line>`. SIGTERM ends it.

config=${LMCACHE_RUNTIME_PLUGIN_CONFIG-}
if [ -z "$config" ] && [ -n "${LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE-}" ]; then
    config=$(cat "$LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE") # too large for a variable
fi
config=${config:-"{}"}

trap 'echo "Stopped"; exit 0' SIGTERM

echo "Config: $config"
if command -v jq >/dev/null; then
    jq -r '"Server: \(.mp_config.host):\(.mp_config.port), chunk size \(.mp_config.chunk_size), eviction \(
        .storage_manager_config.eviction_config.eviction_policy)"' <<<"$config"
else
    echo "jq is not installed: no summary"
fi

beats=0
while true; do
    sleep 30 &
    wait $!
    beats=$((beats + 1))
    echo "Heartbeat $beats"
done

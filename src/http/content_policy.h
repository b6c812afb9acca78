// The Content-Security-Policy of a page that is one file.
#pragma once

#include <string>
#include <string_view>

namespace tessera::http {

// Scripts are allowed by the hashes of those that stand in `html`, so that a script that somebody
// brings in by a name or a value does not run. Wasm, workers and pictures may come from blobs and
// data that the page makes itself; everything else only from the own origin.
std::string content_policy(std::string_view html);

}  // namespace tessera::http

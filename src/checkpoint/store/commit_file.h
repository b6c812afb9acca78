// COMMIT, the last file of a checkpoint: with it the checkpoint exists, and it says which contents
// all other files have. Two lines: a JSON object, and the CRC-32C of the first.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "checkpoint/store/store_json.h"

namespace tessera {

struct CommitFile {
  FileHead head;
  std::string manifest_hash;                      // SHA-256 of manifest.json
  std::string state_hash;                         // of state.json
  std::map<std::string, std::string> crc_hashes;  // of every data-*.crc, by name
};

std::string text_of_commit(const CommitFile& commit);
CommitFile parse_commit(std::string_view text, const std::string& path);

}  // namespace tessera

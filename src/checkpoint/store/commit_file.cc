#include "checkpoint/store/commit_file.h"

#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/text/text.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

constexpr std::string_view kSum = "crc32c ";

std::string sum_line(std::string_view body) {
  return fmt::format("{}{:08x}\n", kSum, crc32c(body));
}

}  // namespace

std::string text_of_commit(const CommitFile& commit) {
  nlohmann::json root = head_json(commit.head.id, commit.head.step);
  root["manifest"] = commit.manifest_hash;
  root["state"] = commit.state_hash;
  root["sums"] = commit.crc_hashes;
  const std::string body = root.dump() + "\n";
  return body + sum_line(body);
}

CommitFile parse_commit(std::string_view text, const std::string& path) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) fail_corrupt(path, "it is cut off");
  const std::string_view body = text.substr(0, end + 1);
  const std::string_view rest = text.substr(end + 1);
  if (rest != sum_line(body)) {
    fail_corrupt(path, fmt::format("its last line is {}, but its first line has the sum {:08x}",
                                   in_quotes(rest), crc32c(body)));
  }
  const nlohmann::json parsed = parse_store_json(body, path);
  const StoreValue root(parsed, path);
  CommitFile commit;
  commit.head = parse_head(root, path);
  commit.manifest_hash = root.at("manifest").hash();
  commit.state_hash = root.at("state").hash();
  const StoreValue sums = root.at("sums");
  for (const auto& [name, value] : sums.object().items()) {
    if (!is_shard_file(name)) sums.fail(fmt::format("names {}", in_quotes(name)));
    commit.crc_hashes[name] = sums.member(name, value).hash();
  }
  return commit;
}

}  // namespace tessera

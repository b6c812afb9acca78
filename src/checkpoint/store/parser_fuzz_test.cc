// Damaged files of a checkpoint are errors of the right kind, never crashes or large allocations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/testing/damage.h"
#include "base/testing/message_of.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store/block_sums.h"
#include "checkpoint/store/checkpoint_folder.h"
#include "checkpoint/store/verify_checkpoint.h"
#include "checkpoint/testing/crash_disk.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using namespace testing;  // the samples

const std::string kFile = "f";

std::string manifest_text() {
  return dump_store_json(to_json(manifest_of(small_plan(), {"run1", 1, "s"}, 3)));
}

std::string error_of_manifest(const std::function<void(nlohmann::json&)>& edit) {
  nlohmann::json json = nlohmann::json::parse(manifest_text());
  edit(json);
  return message_of<Error>([&] { parse_manifest(json.dump(), kFile); });
}

TEST(ParserTest, AManifestIsReadAsItWasWritten) {
  const Manifest manifest = parse_manifest(manifest_text(), kFile);
  EXPECT_EQ(dump_store_json(to_json(manifest)), manifest_text());
  EXPECT_EQ(manifest.find("b")->chunks.size(), 1U);
  EXPECT_EQ(manifest.find("c"), nullptr);
}

TEST(ParserTest, MistakesInAManifestNamePlaceAndValue) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  using Json = nlohmann::json;
  has(error_of_manifest([](Json& j) { j["files"][1]["name"] = "../x"; }),
      "files[1].name is \"../x\", not \"data-0001-of-0002.safetensors\"");
  has(error_of_manifest([](Json& j) { j["files"] = Json::array(); }), "files has 0 entries");
  has(error_of_manifest([](Json& j) { j["files"][0]["bytes"] = -1; }),
      "files[0].bytes is no whole number");
  has(error_of_manifest([](Json& j) { j["tensors"]["a"]["dtype"] = "F31"; }),
      "tensors.a.dtype is \"F31\", which is unknown");
  has(error_of_manifest([](Json& j) { j["tensors"]["a"]["shape"] = {1, 2, 3, 4, 5, 6, 7, 8, 9}; }),
      "tensors.a.shape has 9 dims, more than 8");
  has(error_of_manifest([](Json& j) {
        j["tensors"]["a"]["shape"] = {int64_t{1} << 40, int64_t{1} << 40};
      }),
      "has an impossible size");
  has(error_of_manifest([](Json& j) { j["tensors"]["a"]["chunks"].erase(0); }),
      "tensors.a is not there exactly once: 4 of 10 elements are in no chunk");
  has(error_of_manifest([](Json& j) {
        j["tensors"]["a"]["chunks"][0]["offset"] = {2, 0};
      }),
      "overlap");
  has(error_of_manifest([](Json& j) {
        j["tensors"]["a"]["chunks"][0]["offset"] = {5, 0};
      }),
      "tensors.a.chunks[0] does not lie in a tensor of shape [5, 2]");
  has(error_of_manifest([](Json& j) { j["tensors"]["a"]["chunks"][0]["file"] = 2; }),
      "tensors.a.chunks[0].file is 2, more than 1");
  has(error_of_manifest([](Json& j) { j["tensors"]["a"]["chunks"][0]["begin"] = 9; }),
      "tensors.a.chunks[0] has bytes 9 to");
  has(error_of_manifest([](Json& j) { j["run"] = "a/b"; }), "run is \"a/b\", which is no id");
  has(error_of_manifest([](Json& j) { j["format"] = "zip"; }), "format is \"zip\"");
  has(error_of_manifest([](Json& j) { j.erase("step"); }), "it has no step");
  has(error_of_manifest([](Json& j) { j = Json::array(); }), "it is no object");
}

TEST(ParserTest, JsonIsBoundedAndStrict) {
  const auto message = [](const std::string& text) {
    return message_of<Error>([&] { parse_store_json(text, kFile); });
  };
  EXPECT_NE(message(std::string(100, '[')).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(message(R"({"a":1,"a":2})").find("key \"a\" twice"), std::string::npos);
  EXPECT_NE(message(R"({"x":{"a":1},"a":{"a":2}} 3)").find("not valid near byte"),
            std::string::npos);
  EXPECT_NE(message(std::string("{}\0", 3)).find("zero byte"), std::string::npos);
  EXPECT_NE(message("\"\xff\"").find("not valid"), std::string::npos);
  EXPECT_EQ(message(R"({"x":{"a":1},"y":{"a":2}})"), "no error");
  EXPECT_EQ(message(std::string(64, '[') + std::string(64, ']')), "no error");
}

// What a damaged file of a checkpoint may be: read as something, corrupt, or of a newer version.
void expect_error_or_nothing(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Error& error) {
    const ExitCode code = error.code();
    EXPECT_TRUE(code == ExitCode::kCorrupt || code == ExitCode::kVersion) << error.what();
  }
}

// A COMMIT and sums whose own checksum is right again.
std::string with_line_sum(const std::string& body) {
  const std::string line = body.substr(0, body.find('\n') + 1);
  return line + fmt::format("crc32c {:08x}\n", crc32c(line));
}
std::string with_sum(std::string head) {
  const uint32_t sum = crc32c(head);
  for (int b = 0; b < 4; ++b) head += static_cast<char>(sum >> (8 * b) & 0xFF);
  return head;
}

// Random damage, with sums made right again so that the parsers behind them are reached.
TEST(ParserTest, RandomDamageNeverCrashes) {
  CrashDisk disk;
  save_sample(disk, small_plan(), {"run1", 1, "s"}, 3, 3);
  const std::string folder = step_folder(3) + "/";
  const std::string commit = disk.bytes_of(folder + "COMMIT");
  const std::string sums = disk.bytes_of(folder + crc_file(0, 2));
  const std::string manifest = disk.bytes_of(folder + "manifest.json");
  const std::string state = disk.bytes_of(folder + "state.json");
  const std::string shard = disk.bytes_of(folder + data_file(0, 2));
  const std::string header = shard.substr(8, shard.rfind('}') - 7);
  const auto data_bytes = static_cast<int64_t>(shard.size() - 8 - header.size());
  Damage damage(7);
  for (TryMany tries(1'500, 20'000); tries.next();) {
    const std::string body = damage.of(commit.substr(0, commit.find('\n') + 1));
    expect_error_or_nothing([&] { parse_commit(with_line_sum(body), kFile); });
    const std::string head = damage.of(sums.substr(0, sums.size() - 4));
    expect_error_or_nothing([&] { parse_sums(with_sum(head), kFile); });
    expect_error_or_nothing([&] { parse_manifest(damage.of(manifest), kFile); });
    expect_error_or_nothing([&] { parse_commit(damage.of(commit), kFile); });
    expect_error_or_nothing([&] { parse_ack(damage.of(R"({"run":"a","rank":1})")); });
    expect_error_or_nothing([&] {
      const nlohmann::json parsed = parse_store_json(damage.of(state), kFile);
      (void)parse_head(StoreValue(parsed, kFile), kFile);
    });
    try {
      (void)SafetensorsHeader::parse(damage.of(header), data_bytes, kFile);
    } catch (const Error&) {  // of the general exit code: the store says which
    }
  }
}

// A file of `disk` is damaged, and every hash over it made right again: what reads the shards must
// hold by itself.
void damage_with_right_hashes(CrashDisk& disk, const std::string& folder, Damage& damage) {
  const auto at = [&](const std::string& name) -> std::string& {
    return disk.bytes_of(folder + "/" + name);
  };
  const int64_t victim = damage.roll(0, 3);
  nlohmann::json commit = nlohmann::json::parse(at("COMMIT").substr(0, at("COMMIT").find('\n')));
  if (victim == 0) at("manifest.json") = damage.of(at("manifest.json"));
  if (victim == 1) at("state.json") = damage.of(at("state.json"));
  if (victim >= 2) {
    const int64_t rank = damage.roll(0, 1);
    std::string& shard = at(data_file(rank, 2));
    const size_t header = shard.rfind('}') + 1;
    std::string head = shard.substr(8, header - 8);
    if (victim == 2) head = damage.of(head);
    std::string length;
    for (int b = 0; b < 8; ++b) length += static_cast<char>(head.size() >> (8 * b) & 0xFF);
    shard = length + head + shard.substr(header);
    FileSums sums{.bytes = std::ssize(shard), .header_hash = sha256(length + head), .blocks = {}};
    RunningSums running;
    std::string copy(shard.size(), '\0');
    running.copy(reinterpret_cast<std::byte*>(copy.data()), std::as_bytes(std::span(shard)));
    sums.blocks = running.blocks();
    std::string text = text_of_sums(sums);
    if (victim == 3) text = with_sum(damage.of(text.substr(0, text.size() - 4)));
    at(crc_file(rank, 2)) = text;
    commit["sums"][crc_file(rank, 2)] = sha256_hex(text);
  }
  commit["manifest"] = sha256_hex(at("manifest.json"));
  commit["state"] = sha256_hex(at("state.json"));
  at("COMMIT") = with_line_sum(commit.dump() + "\n");
}

TEST(ParserTest, DamageThatAllHashesAgreeWithNeverCrashes) {
  CrashDisk disk;
  save_sample(disk, small_plan(), {"run1", 1, "s"}, 3, 3);
  const std::string folder = step_folder(3);
  Damage damage(11);
  int64_t refused = 0, tried = 0;
  for (TryMany tries(400, 5'000); tries.next(); ++tried) {
    const std::unique_ptr<CrashDisk> edited = disk.copy();
    damage_with_right_hashes(*edited, folder, damage);
    const CheckReport report = verify_checkpoint(*edited, folder, /*deep=*/true, 1);
    if (report.code() != ExitCode::kOk) {
      ++refused;
      EXPECT_TRUE(report.code() == ExitCode::kCorrupt || report.code() == ExitCode::kVersion ||
                  report.code() == ExitCode::kAbsent);
      continue;
    }
    // What counts as whole can be read, and memory outside of the box stays as it was.
    std::vector<std::byte> memory(12 * 4, std::byte{0x11});
    try {
      const CheckpointFolder checkpoint = open_checkpoint(*edited, folder);
      const WantedBox wanted{
          "a", StoredType::kF32, {5, 2}, placed_dense(whole_box({5, 2})), memory.data()};
      (void)read_boxes(*edited, checkpoint, {&wanted, 1});
    } catch (const Error&) {
    }
    EXPECT_EQ(memory[40], std::byte{0x11});
  }
  EXPECT_GT(refused, tried / 3);
  EXPECT_LT(refused, tried) << "damage to a free text is none";
}

}  // namespace
}  // namespace tessera

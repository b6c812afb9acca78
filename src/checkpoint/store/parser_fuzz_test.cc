// Damaged files of a checkpoint are errors of the right kind, never crashes or large allocations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/testing/message_of.h"
#include "base/testing/share.h"
#include "checkpoint/store/checkpoint_folder.h"
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

// Random damage, with sums made right again so that the parsers behind them are reached.
TEST(ParserTest, RandomDamageNeverCrashes) {
  CrashDisk disk;
  save_sample(disk, small_plan(), {"run1", 1, "s"}, 3, 3);
  const std::string folder = step_folder(3) + "/";
  const std::string commit = disk.bytes_of(folder + "COMMIT");
  const std::string sums = disk.bytes_of(folder + crc_file(0, 2));
  const std::string manifest = disk.bytes_of(folder + "manifest.json");
  Dice dice(static_cast<uint64_t>(rotation()) + 7);
  const auto damaged = [&](std::string text) {
    const int64_t edits = roll(dice, 1, 4);
    for (int64_t i = 0; i < edits && !text.empty(); ++i) {
      const auto at = static_cast<size_t>(roll(dice, 0, std::ssize(text) - 1));
      switch (roll(dice, 0, 3)) {
        case 0:
          text[at] = static_cast<char>(roll(dice, 0, 255));
          break;
        case 1:
          text.erase(at, static_cast<size_t>(roll(dice, 1, 9)));
          break;
        case 2:
          text.insert(at, text.substr(static_cast<size_t>(roll(dice, 0, std::ssize(text) - 1)),
                                      static_cast<size_t>(roll(dice, 1, 20))));
          break;
        default:
          text.insert(at, "9999999999999999999");
      }
    }
    return text;
  };
  const auto expect_error_or_nothing = [&](const std::function<void()>& parse) {
    try {
      parse();
    } catch (const Error& error) {
      const ExitCode code = error.code();
      EXPECT_TRUE(code == ExitCode::kCorrupt || code == ExitCode::kVersion) << error.what();
    }
  };
  const int64_t rounds = tries_all() ? 20'000 : 1'500;
  for (int64_t i = 0; i < rounds; ++i) {
    const std::string body = damaged(commit.substr(0, commit.find('\n') + 1));
    const std::string line = body.substr(0, body.find('\n') + 1);
    expect_error_or_nothing(
        [&] { parse_commit(line + fmt::format("crc32c {:08x}\n", crc32c(line)), kFile); });
    std::string head = damaged(sums.substr(0, sums.size() - 4));
    const uint32_t sum = crc32c(head);
    for (int b = 0; b < 4; ++b) head += static_cast<char>(sum >> (8 * b) & 0xFF);
    expect_error_or_nothing([&] { parse_sums(head, kFile); });
    expect_error_or_nothing([&] { parse_manifest(damaged(manifest), kFile); });
    expect_error_or_nothing([&] { parse_commit(damaged(commit), kFile); });
    expect_error_or_nothing([&] { parse_ack(damaged(R"({"run":"a","rank":1})")); });
  }
}

}  // namespace
}  // namespace tessera

// What a checkpoint may not be that came from somebody else: no links, pipes or devices, no names
// that are paths, no sizes that nothing holds. Each is refused by name, before memory is taken.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/testing/test_folder.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/verify_checkpoint.h"
#include "checkpoint/testing/crash_disk.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using namespace testing;  // the samples
namespace fs = std::filesystem;

const std::string kStep = step_folder(1);

struct Refused {
  ExitCode code = ExitCode::kOk;
  std::string message;
};
Refused refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

std::vector<std::string> files_of_checkpoint() {
  return {"COMMIT",        "manifest.json", "state.json",  data_file(0, 2),
          data_file(1, 2), crc_file(0, 2),  crc_file(1, 2)};
}

// Puts something else in the place of a file. False: this user may not.
using Replace = std::function<bool(const std::string& path)>;

bool bind_socket(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof(address.sun_path)) return false;
  path.copy(address.sun_path, path.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return bound;
}

TEST(CheckpointSecurityTest, NoFileMayBeALinkAPipeADeviceASocketOrAFolder) {
  const std::vector<std::pair<std::string, Replace>> kinds = {
      {"link",
       [](const std::string& path) {
         fs::rename(path, path + ".moved");
         fs::create_symlink(path + ".moved", path);
         return true;
       }},
      {"link to a device",
       [](const std::string& path) {
         fs::create_symlink("/dev/zero", path);
         return true;
       }},
      {"pipe", [](const std::string& path) { return ::mkfifo(path.c_str(), 0600) == 0; }},
      {"folder", [](const std::string& path) { return fs::create_directory(path); }},
      {"socket", bind_socket},
      {"device", [](const std::string& path) {
         return ::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0;  // /dev/zero
       }}};
  int tried = 0;
  for (const auto& [kind, replace] : kinds) {
    for (const std::string& name : files_of_checkpoint()) {
      SCOPED_TRACE(kind + " " + name);
      const TestFolder folder;
      const std::unique_ptr<FileOps> files = real_files(folder.path("c"), /*make=*/true);
      save_sample(*files, small_plan(), {"run1", 1, "s"}, 1, 1);
      const std::string path = folder.path("c/" + kStep + "/" + name);
      if (kind != "link") fs::remove(path);
      if (!replace(path)) continue;
      ++tried;
      const CheckReport report = verify_checkpoint(*files, kStep, /*deep=*/true, 1);
      EXPECT_NE(report.code(), ExitCode::kOk);
      EXPECT_NE(refused([&] { newest_good(*files, {}); }).code, ExitCode::kOk);
    }
  }
  EXPECT_GE(tried, 28);
}

// A link as a step's folder is no save, and nothing is removed behind it.
TEST(CheckpointSecurityTest, AStepsFolderMayBeNoLink) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("c"), /*make=*/true);
  const std::unique_ptr<FileOps> other = real_files(folder.path("other"), /*make=*/true);
  for (int64_t step = 1; step <= 3; ++step) {
    save_sample(*(step == 1 ? other : files), small_plan(), {"run1", 1, "s" + std::to_string(step)},
                step, 1);
  }
  fs::create_directory_symlink("../other/" + kStep, folder.path("c/" + kStep));
  for (const StoredSave& save : list_saves(*files)) EXPECT_NE(save.folder, kStep);
  EXPECT_NE(refused([&] { open_checkpoint(*files, kStep); }).code, ExitCode::kOk);
  (void)apply_retention(*files, {.keep = 2});
  (void)recover_saves(*files, {.run = "run1", .generation = 2});
  EXPECT_EQ(newest_good(*other, {})->step(), 1) << "what lies behind the link is there";
}

// A file that is cut while it is read is an error, not a signal.
TEST(CheckpointSecurityTest, AShardThatIsCutWhileItIsReadIsDamaged) {
  const TestFolder folder;
  const std::unique_ptr<FileOps> files = real_files(folder.path("c"), /*make=*/true);
  save_sample(*files, small_plan(), {"run1", 1, "s"}, 1, 1);
  const std::unique_ptr<OldFile> shard = files->open({kStep, data_file(0, 2)});
  fs::resize_file(folder.path("c/" + kStep + "/" + data_file(0, 2)), 10);
  std::vector<std::byte> bytes(static_cast<size_t>(shard->size()));
  const Refused result = refused([&] { shard->read_at(0, bytes); });
  EXPECT_EQ(result.code, ExitCode::kCorrupt);
  EXPECT_NE(result.message.find("ends at byte 10 but had"), std::string::npos) << result.message;
}

// Sparse files of more than any checkpoint has are refused by their size; reading one would take
// minutes, and its memory.
TEST(CheckpointSecurityTest, FilesOfImpossibleSizesAreNotRead) {
  for (const std::string name : {"COMMIT", "manifest.json", "state.json"}) {
    const TestFolder folder;
    const std::unique_ptr<FileOps> files = real_files(folder.path("c"), /*make=*/true);
    save_sample(*files, small_plan(), {"run1", 1, "s"}, 1, 1);
    fs::resize_file(folder.path("c/" + kStep + "/" + name), uintmax_t{1} << 40);
    const Refused result = refused([&] { open_checkpoint(*files, kStep); });
    EXPECT_EQ(result.code, ExitCode::kCorrupt) << name;
    EXPECT_NE(result.message.find(name), std::string::npos) << result.message;
  }
}

// A header's length is compared with its limit and with the file before anything is read.
TEST(CheckpointSecurityTest, HeadersOfImpossibleSizesAreNotRead) {
  for (const uint64_t claimed : {uint64_t{kMaxHeaderBytes} + 1, uint64_t{1} << 62,
                                 uint64_t{1} << 63, ~uint64_t{0}, uint64_t{100'000}}) {
    CrashDisk disk;
    save_sample(disk, small_plan(), {"run1", 1, "s"}, 1, 1);
    std::string& shard = disk.bytes_of(kStep + "/" + data_file(0, 2));
    for (size_t b = 0; b < 8; ++b) shard[b] = static_cast<char>(claimed >> (8 * b) & 0xFF);
    const Refused result = refused([&] { newest_good(disk, {}); });
    EXPECT_EQ(result.code, ExitCode::kCorrupt);
    EXPECT_NE(result.message.find(fmt::format("claims a header of {} bytes", claimed)),
              std::string::npos)
        << result.message;
  }
}

// With hashes that fit, so that the parsers are asked.
Refused with_manifest(const std::function<void(nlohmann::json&)>& edit) {
  CrashDisk disk;
  save_sample(disk, small_plan(), {"run1", 1, "s"}, 1, 1);
  std::string& manifest = disk.bytes_of(kStep + "/manifest.json");
  std::string& commit = disk.bytes_of(kStep + "/COMMIT");
  nlohmann::json json = nlohmann::json::parse(manifest);
  edit(json);
  manifest = json.dump();
  nlohmann::json head = nlohmann::json::parse(commit.substr(0, commit.find('\n')));
  head["manifest"] = sha256_hex(manifest);
  const std::string line = head.dump() + "\n";
  commit = line + fmt::format("crc32c {:08x}\n", crc32c(line));
  return refused([&] { newest_good(disk, {}); });
}

TEST(CheckpointSecurityTest, NamesAreNeverPathsAndNumbersNeverOverflow) {
  using Json = nlohmann::json;
  const auto rename_tensor = [](const std::string& name) {
    return [name](Json& j) {
      j["tensors"][name] = j["tensors"]["a"];
      j["tensors"].erase("a");
    };
  };
  const auto chunk = [](const char* key, const Json& value) {
    return [key, value](Json& j) { j["tensors"]["a"]["chunks"][0][key] = value; };
  };
  const auto file_name = [](const std::string& name) {
    return [name](Json& j) { j["files"][0]["name"] = name; };
  };
  static constexpr int64_t kMost = INT64_MAX;
  const std::vector<std::pair<std::string, std::function<void(Json&)>>> edits = {
      {"parent", file_name("../../etc/passwd")},
      {"absolute", file_name("/etc/passwd")},
      {"hidden", file_name(".data-0000-of-0002.safetensors")},
      {"inside", file_name("x/data-0000-of-0002.safetensors")},
      {"zero", file_name(std::string("data-0000-of-0002.safetensors\0", 30))},
      {"long name", rename_tensor(std::string(4097, 'x'))},
      {"zero byte in a name", rename_tensor(std::string("a\0b", 3))},
      {"no name", rename_tensor("")},
      {"begin", chunk("begin", kMost)},
      {"end", chunk("end", kMost)},
      {"end above 2^63", chunk("end", ~uint64_t{0})},
      {"negative", chunk("begin", -8)},
      {"fraction", chunk("begin", 8.5)},
      {"offset", chunk("offset", {kMost, kMost})},
      {"shape", chunk("shape", {kMost, kMost})},
      {"offset and shape together",
       [&](Json& j) {
         j["tensors"]["a"]["chunks"][0]["offset"] = {kMost, 0};
         j["tensors"]["a"]["chunks"][0]["shape"] = {kMost, 2};
       }},
      {"tensor",
       [](Json& j) {
         j["tensors"]["a"]["shape"] = {kMost, kMost, 0};
       }},
      {"bytes", [](Json& j) { j["files"][0]["bytes"] = kMost; }},
      {"step", [](Json& j) { j["step"] = kMost; }},
      {"generation", [](Json& j) { j["generation"] = ~uint64_t{0}; }},
      {"file", chunk("file", kMost)}};
  for (const auto& [what, edit] : edits) {
    const Refused result = with_manifest(edit);
    EXPECT_EQ(result.code, ExitCode::kCorrupt) << what << ": " << result.message;
    EXPECT_LT(result.message.size(), 1000U) << what;
  }
  EXPECT_EQ(with_manifest([](Json&) {}).code, ExitCode::kOk) << "the edits alone are what is wrong";
}

// Nothing of a checkpoint reaches a terminal as it is.
TEST(CheckpointSecurityTest, MessagesSpellOutWhatTerminalsObey) {
  const Refused result = with_manifest([](nlohmann::json& j) {
    j["tensors"]["\x1b]0;title\x07"] = j["tensors"]["a"];
    j["tensors"]["\x1b]0;title\x07"]["dtype"] = "\x1b[2J";
  });
  EXPECT_EQ(result.code, ExitCode::kCorrupt);
  EXPECT_EQ(result.message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tessera

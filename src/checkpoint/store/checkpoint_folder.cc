#include "checkpoint/store/checkpoint_folder.h"

#include <algorithm>
#include <set>

#include "base/sha256.h"
#include "base/text/text.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

constexpr int64_t kLengthBytes = 8;

std::string read_hashed(const FileOps& files, const StorePath& path, int64_t most_bytes,
                        const std::string& hash) {
  std::string text = read_small_file(files, path, most_bytes);
  const std::string actual = sha256_hex(text);
  if (actual != hash) {
    fail_corrupt(files.path_text(path),
                 fmt::format("its SHA-256 is {}, but COMMIT says {}", actual, hash));
  }
  return text;
}

void require_same_save(const FileHead& head, const FileHead& commit, const std::string& path) {
  if (head.id == commit.id && head.step == commit.step) return;
  fail_corrupt(path, fmt::format("it is of {}, step {}, but COMMIT is of {}, step {}",
                                 text_of(head.id), head.step, text_of(commit.id), commit.step));
}

// COMMIT has a sum for every file of the manifest and for no other.
void require_same_shards(const CheckpointFolder& checkpoint, const std::string& path) {
  const auto& hashes = checkpoint.commit.crc_hashes;
  for (const ManifestFile& file : checkpoint.manifest.files) {
    if (!hashes.contains(crc_file_of(file.name))) {
      fail_corrupt(path, fmt::format("it names no sums of {}", file.name));
    }
  }
  if (hashes.size() != checkpoint.manifest.files.size()) {
    fail_corrupt(path, fmt::format("it has the sums of {} files, but the manifest has {}",
                                   hashes.size(), checkpoint.manifest.files.size()));
  }
}

StorePath path_of(const CheckpointFolder& checkpoint, std::string_view name) {
  return {checkpoint.folder, std::string(name)};
}

bool has_file(const FileOps& files, const StorePath& path) {
  try {
    (void)files.open(path);
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kAbsent) throw;
    return false;
  }
}

// The length and the header, as bytes of the file.
std::string read_head(const OldFile& file, const std::string& path) {
  std::string length(kLengthBytes, '\0');
  if (file.size() < kLengthBytes) {
    fail_corrupt(path, fmt::format("it has only {} bytes", file.size()));
  }
  file.read_at(0, std::as_writable_bytes(std::span(length)));
  uint64_t bytes = 0;
  for (size_t i = length.size(); i-- > 0;) bytes = bytes << 8 | static_cast<uint8_t>(length[i]);
  if (bytes > static_cast<uint64_t>(kMaxHeaderBytes) ||
      bytes > static_cast<uint64_t>(file.size() - kLengthBytes)) {
    fail_corrupt(path, fmt::format("it claims a header of {} bytes", bytes));
  }
  std::string head(static_cast<size_t>(bytes) + kLengthBytes, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(head)));
  return head;
}

SafetensorsHeader parse_header(const std::string& head, int64_t file_bytes,
                               const std::string& path) {
  try {
    return SafetensorsHeader::parse(std::string_view(head).substr(kLengthBytes),
                                    file_bytes - static_cast<int64_t>(head.size()), path);
  } catch (const Error& error) {
    throw Error(error.what(), ExitCode::kCorrupt);
  }
}

// Every chunk that the manifest has in this file is in its header at the same place, and there is
// no other.
void compare_chunks(const CheckpointFolder& checkpoint, int64_t file,
                    const SafetensorsHeader& header, int64_t data_begin, const std::string& path) {
  size_t chunks = 0;
  for (const ManifestTensor& tensor : checkpoint.manifest.tensors) {
    for (const ManifestChunk& chunk : tensor.chunks) {
      if (chunk.file != file) continue;
      ++chunks;
      const std::string name = chunk_name(tensor.name, chunk.box);
      const TensorInfo* stored = header.find(name);
      if (stored == nullptr) {
        fail_corrupt(path, fmt::format("its header has no {}", in_quotes(name, 200)));
      }
      if (stored->type != tensor.type || stored->shape != chunk.box.shape ||
          stored->begin != chunk.begin - data_begin || stored->end != chunk.end - data_begin) {
        fail_corrupt(path,
                     fmt::format("{} is {} {} at byte {} in its header, but {} {} at {} in "
                                 "the manifest",
                                 in_quotes(name, 200), name_of(stored->type),
                                 shape_text(stored->shape), stored->begin + data_begin,
                                 name_of(tensor.type), shape_text(chunk.box.shape), chunk.begin));
      }
    }
  }
  if (chunks != header.tensors().size()) {
    fail_corrupt(path, fmt::format("its header has {} chunks, but the manifest has {}",
                                   header.tensors().size(), chunks));
  }
}

}  // namespace

CheckpointFolder open_checkpoint(const FileOps& files, const std::string& folder,
                                 bool allow_unchecked) {
  CheckpointFolder checkpoint;
  checkpoint.folder = folder;
  checkpoint.allow_unchecked = allow_unchecked;
  const std::vector<StoreEntry> entries = files.list(folder);
  const bool committed = std::ranges::any_of(
      entries, [](const StoreEntry& entry) { return entry.name == kCommitFile; });
  if (!committed) {
    fail_absent(files.path_text({folder, ""}),
                "has no COMMIT: the save was never finished; use another checkpoint");
  }
  const StorePath commit = path_of(checkpoint, kCommitFile);
  const StorePath manifest = path_of(checkpoint, kManifestFile);
  const StorePath state = path_of(checkpoint, kStateFile);
  checkpoint.commit =
      parse_commit(read_small_file(files, commit, kMostCommitBytes), files.path_text(commit));
  checkpoint.manifest = parse_manifest(
      read_hashed(files, manifest, kMostManifestBytes, checkpoint.commit.manifest_hash),
      files.path_text(manifest));
  require_same_save(checkpoint.manifest.head, checkpoint.commit.head, files.path_text(manifest));
  require_same_shards(checkpoint, files.path_text(commit));
  const std::string state_path = files.path_text(state);
  checkpoint.state = parse_store_json(
      read_hashed(files, state, kMostStateBytes, checkpoint.commit.state_hash), state_path);
  require_same_save(parse_head(StoreValue(checkpoint.state, state_path), state_path),
                    checkpoint.commit.head, state_path);
  return checkpoint;
}

FileSums load_sums(const FileOps& files, const CheckpointFolder& checkpoint, int64_t file) {
  const ManifestFile& shard = checkpoint.manifest.files[static_cast<size_t>(file)];
  const StorePath path = path_of(checkpoint, crc_file_of(shard.name));
  if (checkpoint.allow_unchecked && !has_file(files, path)) {
    return {.bytes = shard.bytes, .header_hash = {}, .blocks = {}, .missing = true};
  }
  const FileSums sums = parse_sums(read_hashed(files, path, bytes_of_sums(shard.bytes),
                                               checkpoint.commit.crc_hashes.at(path.name)),
                                   files.path_text(path));
  if (sums.bytes != shard.bytes) {
    fail_corrupt(files.path_text(path), fmt::format("it is of a file of {} bytes, but {} has {}",
                                                    sums.bytes, shard.name, shard.bytes));
  }
  return sums;
}

FileSums check_shard(const FileOps& files, const CheckpointFolder& checkpoint, int64_t file) {
  const ManifestFile& shard = checkpoint.manifest.files[static_cast<size_t>(file)];
  FileSums sums = load_sums(files, checkpoint, file);
  const StorePath path = path_of(checkpoint, shard.name);
  const std::string text = files.path_text(path);
  const std::unique_ptr<OldFile> data = files.open(path);
  if (data->size() != shard.bytes) {
    fail_corrupt(text,
                 fmt::format("it has {} bytes, but should have {}", data->size(), shard.bytes));
  }
  const std::string head = read_head(*data, text);
  if (!sums.missing && sha256(head) != sums.header_hash) {
    fail_corrupt(text, "block 0: its header is not the one that was written");
  }
  compare_chunks(checkpoint, file, parse_header(head, shard.bytes, text),
                 static_cast<int64_t>(head.size()), text);
  return sums;
}

std::vector<std::string> shards_without_sums(const FileOps& files,
                                             const CheckpointFolder& checkpoint) {
  std::vector<std::string> names;
  for (const ManifestFile& file : checkpoint.manifest.files) {
    if (!has_file(files, path_of(checkpoint, crc_file_of(file.name)))) names.push_back(file.name);
  }
  return names;
}

void check_entries(const FileOps& files, const CheckpointFolder& checkpoint) {
  std::set<std::string, std::less<>> expected = {
      std::string(kCommitFile), std::string(kManifestFile), std::string(kStateFile)};
  for (const ManifestFile& file : checkpoint.manifest.files) {
    expected.insert(file.name);
    expected.insert(crc_file_of(file.name));
  }
  for (const StoreEntry& entry : files.list(checkpoint.folder)) {
    const std::string path = files.path_text({checkpoint.folder, entry.name});
    if (!expected.contains(entry.name)) {
      // Notes of people do no harm; a shard of something else does.
      if (is_shard_file(entry.name)) fail_corrupt(path, "no part of this checkpoint has that name");
      continue;
    }
    if (entry.kind != EntryKind::kFile) fail_corrupt(path, "it is not a regular file");
    expected.erase(entry.name);
  }
  if (checkpoint.allow_unchecked) {
    for (const ManifestFile& file : checkpoint.manifest.files) {
      expected.erase(crc_file_of(file.name));
    }
  }
  if (!expected.empty()) {
    fail_absent(files.path_text({checkpoint.folder, *expected.begin()}),
                "is missing: the checkpoint is incomplete; use another, or copy this one again");
  }
}

void quick_check(const FileOps& files, const CheckpointFolder& checkpoint) {
  check_entries(files, checkpoint);
  for (size_t i = 0; i < checkpoint.manifest.files.size(); ++i) {
    (void)check_shard(files, checkpoint, static_cast<int64_t>(i));
  }
}

}  // namespace tessera

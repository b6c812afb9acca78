#include "checkpoint/store/shard_writer.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "checkpoint/store/block_sums.h"

namespace tessera {
namespace {

constexpr int64_t kLeastBufferBytes = int64_t{4} << 10, kMostBufferBytes = int64_t{8} << 20;

// Collects bytes, sums them, and writes them in large pieces.
class SummedFile {
 public:
  SummedFile(NewFile& file, std::span<std::byte> buffer) : file_(file), buffer_(buffer) {}

  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), buffer_.size() - filled_);
      sums_.copy(buffer_.data() + filled_, bytes.first(count));
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ == buffer_.size()) flush();
    }
  }

  void flush() {
    if (filled_ > 0) file_.write(buffer_.first(filled_));
    filled_ = 0;
  }

  [[nodiscard]] const RunningSums& sums() const { return sums_; }

 private:
  NewFile& file_;
  std::span<std::byte> buffer_;
  size_t filled_ = 0;
  RunningSums sums_;
};

void add_chunk(const ChunkMemory& chunk, const Box& box, int64_t element, SummedFile& file) {
  for_each_common_run(
      chunk.place, placed_dense(box), box, [&](int64_t from, int64_t /*to*/, int64_t count) {
        file.add({chunk.memory + from * element, static_cast<size_t>(count * element)});
      });
}

std::string write_sums(FileOps& files, const StorePath& path, const FileSums& sums) {
  const std::string text = text_of_sums(sums);
  const std::unique_ptr<NewFile> file = files.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
  return sha256_hex(text);
}

}  // namespace

std::string text_of(const ShardAck& ack) {
  const nlohmann::json json = {{"run", ack.id.run},   {"generation", ack.id.generation},
                               {"save", ack.id.save}, {"rank", ack.rank},
                               {"bytes", ack.bytes},  {"sums", ack.sums_hash}};
  return json.dump();
}

ShardAck parse_ack(std::string_view text) {
  static const std::string kFile = "acknowledgement of a shard";
  const nlohmann::json parsed = parse_store_json(text, kFile);
  const StoreValue root(parsed, kFile);
  return {{root.at("run").id(), static_cast<uint64_t>(root.at("generation").whole()),
           root.at("save").id()},
          root.at("rank").whole(kMostShards),
          root.at("bytes").whole(),
          root.at("sums").hash()};
}

int64_t write_buffer_bytes(int64_t data_bytes) {
  return std::clamp(data_bytes, kLeastBufferBytes, kMostBufferBytes);
}

ShardAck write_shard(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                     int64_t rank, const ChunkSource& source, std::span<std::byte> buffer) {
  const std::string folder = in_progress_folder(id);
  const ShardLayout layout = layout_shard(plan, id, step, rank);
  std::vector<std::byte> own;
  if (buffer.empty()) {
    own.resize(static_cast<size_t>(write_buffer_bytes(bytes_written(plan, rank))));
    buffer = own;
  }
  FileSums sums;
  {
    const std::unique_ptr<NewFile> file = files.create({folder, data_file(rank, plan.world())});
    file->preallocate(layout.bytes);
    SummedFile summed(*file, buffer);
    summed.add(std::as_bytes(std::span(layout.head)));
    for (const HeldBox& held : plan.writes[static_cast<size_t>(rank)]) {
      const int64_t element = size_bits(plan.tensors[held.tensor].type) / 8;
      add_chunk(source(held), held.box, element, summed);
    }
    summed.flush();
    file->sync();
    TESSERA_CHECK(summed.sums().bytes() == layout.bytes, "a shard has {} bytes, not {}",
                  summed.sums().bytes(), layout.bytes);
    sums = {layout.bytes, sha256(layout.head), summed.sums().blocks()};
  }
  const std::string hash = write_sums(files, {folder, crc_file(rank, plan.world())}, sums);
  return {id, rank, layout.bytes, hash};
}

}  // namespace tessera

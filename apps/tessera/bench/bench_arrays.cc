#include "bench/bench_arrays.h"

#include <cstring>
#include <vector>

namespace tessera {
namespace {

class HostArrays final : public RankArrays {
 public:
  HostArrays(CommWorld& world, int64_t size_bytes)
      : in_(world.allocate("bench in", size_bytes)),
        out_(world.allocate("bench out", size_bytes)) {}

  [[nodiscard]] BenchArrays arrays() const override { return {in_.data(), out_.data()}; }
  [[nodiscard]] BenchArrays on_host() const override { return arrays(); }
  void upload(int64_t) override {}
  void download(int64_t) override {}
  void rewrite_input(int64_t size_bytes) override {
    std::memset(in_.data(), 0, static_cast<size_t>(size_bytes));
  }

 private:
  HostArena in_, out_;
};

class DeviceArrays final : public RankArrays {
 public:
  DeviceArrays(NcclWorld& world, int64_t size_bytes)
      : in_(world.allocate_device("bench in", size_bytes)),
        out_(world.allocate_device("bench out", size_bytes)),
        host_in_("bench in, host", size_bytes),
        host_out_("bench out, host", size_bytes),
        zeros_("bench zeros", size_bytes) {}

  [[nodiscard]] BenchArrays arrays() const override {
    return {static_cast<std::byte*>(in_->data()), static_cast<std::byte*>(out_->data())};
  }
  [[nodiscard]] BenchArrays on_host() const override { return {host_in_.data(), host_out_.data()}; }
  void upload(int64_t size_bytes) override {
    in_->upload(host_in_.data(), size_bytes);
    out_->upload(host_out_.data(), size_bytes);
  }
  void download(int64_t size_bytes) override {
    in_->download(host_in_.data(), size_bytes);
    out_->download(host_out_.data(), size_bytes);
  }
  void rewrite_input(int64_t size_bytes) override { in_->upload(zeros_.data(), size_bytes); }

 private:
  std::unique_ptr<DeviceMemory> in_, out_;
  HostArena host_in_, host_out_, zeros_;
};

}  // namespace

std::unique_ptr<RankArrays> make_host_arrays(CommWorld& world, int64_t size_bytes) {
  return std::make_unique<HostArrays>(world, size_bytes);
}

std::unique_ptr<RankArrays> make_device_arrays(NcclWorld& world, int64_t size_bytes) {
  return std::make_unique<DeviceArrays>(world, size_bytes);
}

}  // namespace tessera

#include "runtime/rank.h"

#include "runtime/cpu/cpu_device.h"
#include "runtime/gpu/gpu_device.h"

namespace tessera {
namespace {

std::unique_ptr<RankDevice> make_device(CommWorld& world, Workers& workers,
                                        const RankOptions& options) {
  if (options.gpu) return std::make_unique<GpuDevice>(world, workers, *options.gpu);
  return std::make_unique<CpuDevice>(world, workers);
}

}  // namespace

Rank::Rank(CommWorld& world, const RankOptions& options)
    : world_(world),
      workers_(options.threads),
      device_(make_device(world, workers_, options)),
      memory_(*device_, world.rank()),
      channels_(world) {}

Rank::~Rank() = default;

}  // namespace tessera

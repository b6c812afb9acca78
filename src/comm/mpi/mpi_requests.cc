#include "comm/mpi/mpi_requests.h"

#include "comm/mpi/mpi_session.h"

namespace tessera {
namespace {

bool comes_in(MpiTraffic traffic) {
  return traffic == MpiTraffic::kControlIn || traffic == MpiTraffic::kAbortIn ||
         traffic == MpiTraffic::kDataIn || traffic == MpiTraffic::kEndIn;
}

}  // namespace

void MpiRequests::add(MPI_Request request, MpiTraffic traffic, int owner) {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(requests_.size()));
    requests_.push_back(MPI_REQUEST_NULL);
    slots_.emplace_back();
    indices_.emplace_back();
    statuses_.emplace_back();
    free_.reserve(requests_.size());
    ended_.reserve(requests_.size());
  }
  const auto slot = static_cast<size_t>(free_.back());
  free_.pop_back();
  requests_[slot] = request;
  slots_[slot] = {.traffic = traffic, .owner = owner};
  ++pending_[static_cast<int>(traffic)];
}

std::span<const MpiEnded> MpiRequests::poll() {
  ended_.clear();
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                indices_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED) return {};  // nothing is under way
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<size_t>(i);
    record(indices_[index], statuses_[index], code == MPI_ERR_IN_STATUS);
  }
  return ended_;
}

void MpiRequests::record(int slot, MPI_Status& status, bool failed) {
  const Slot& what = slots_[static_cast<size_t>(slot)];
  // Only then does MPI say how each one ended.
  const int error = failed ? status.MPI_ERROR : MPI_SUCCESS;
  if (error == MPI_ERR_PENDING) return;
  MpiEnded ended{.traffic = what.traffic, .owner = what.owner, .error = error};
  if (comes_in(what.traffic)) {
    ended.source = status.MPI_SOURCE;
    if (error == MPI_SUCCESS) check_mpi(MPI_Get_count(&status, MPI_BYTE, &ended.bytes), "MPI");
  }
  --pending_[static_cast<int>(what.traffic)];
  requests_[static_cast<size_t>(slot)] = MPI_REQUEST_NULL;
  free_.push_back(slot);
  ended_.push_back(ended);
}

void MpiRequests::cancel_receives() {
  for (size_t slot = 0; slot < requests_.size(); ++slot) {
    MPI_Request& request = requests_[slot];
    if (request == MPI_REQUEST_NULL || !comes_in(slots_[slot].traffic)) continue;
    check_mpi(MPI_Cancel(&request), "MPI_Cancel");
    check_mpi(MPI_Request_free(&request), "MPI_Request_free");
  }
}

}  // namespace tessera

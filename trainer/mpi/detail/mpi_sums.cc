#include "trainer/mpi/detail/mpi_sums.h"

#include <algorithm>
#include <limits>

#include "io/base/error.h"

namespace millrace::trainer::detail {

MpiSums::MpiSums(MpiEngine& engine) : engine_(engine) {
  engine_.operate(
      [memory = memory_.get()](MPI_Comm all, MPI_Request* request) {
        return MPI_Comm_idup(all, &memory->comm, request);
      },
      memory_);
}

void MpiSums::take(std::span<const float> from, std::span<const std::size_t> at, std::size_t to) {
  require(at.back() <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
          "MPI sums at most 2^31 values at once");
  memory_->from.assign(from.begin(), from.end());
  memory_->to.resize(to);
  memory_->counts.clear();
  memory_->places.clear();
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    memory_->places.push_back(static_cast<int>(at[i]));
    memory_->counts.push_back(static_cast<int>(at[i + 1] - at[i]));
  }
}

void MpiSums::reduce_scatter(std::span<const float> values, std::span<const std::size_t> at,
                             std::span<float> own) {
  take(values, at, own.size());
  engine_.operate(
      [memory = memory_.get()](MPI_Comm, MPI_Request* request) {
        return MPI_Ireduce_scatter(memory->from.data(), memory->to.data(), memory->counts.data(),
                                   MPI_FLOAT, MPI_SUM, memory->comm, request);
      },
      memory_);
  std::ranges::copy(memory_->to, own.begin());
}

void MpiSums::all_gather(std::span<const float> own, std::span<const std::size_t> at,
                         std::span<float> values) {
  take(own, at, values.size());
  engine_.operate(
      [memory = memory_.get()](MPI_Comm, MPI_Request* request) {
        return MPI_Iallgatherv(memory->from.data(), static_cast<int>(memory->from.size()),
                               MPI_FLOAT, memory->to.data(), memory->counts.data(),
                               memory->places.data(), MPI_FLOAT, memory->comm, request);
      },
      memory_);
  std::ranges::copy(memory_->to, values.begin());
}

}  // namespace millrace::trainer::detail

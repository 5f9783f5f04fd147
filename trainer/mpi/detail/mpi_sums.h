// MpiSums: MPI's own sums over the processes (MPI_Ireduce_scatter, MPI_Iallgatherv), on a
// communicator of their own.
//
// They work on copies: after an abort MPI may still write to its memory, when the caller's is gone.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <vector>

#include "trainer/mpi/detail/mpi_engine.h"
#include "trainer/transport.h"

namespace millrace::trainer::detail {

class MpiSums final : public TransportSums {
 public:
  /// Lifetime: `engine` is borrowed. A collective.
  explicit MpiSums(MpiEngine& engine);

  void reduce_scatter(std::span<const float> values, std::span<const std::size_t> at,
                      std::span<float> own) override;
  void all_gather(std::span<const float> own, std::span<const std::size_t> at,
                  std::span<float> values) override;

 private:
  /// What MPI reads and writes while an operation is under way.
  struct Memory {
    MPI_Comm comm = MPI_COMM_NULL;  ///< freed by MPI_Finalize
    std::vector<float> from, to;
    std::vector<int> counts, places;
  };

  void take(std::span<const float> from, std::span<const std::size_t> at, std::size_t to);

  MpiEngine& engine_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace millrace::trainer::detail

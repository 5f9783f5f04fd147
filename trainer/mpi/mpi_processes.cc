#include "trainer/mpi/mpi_processes.h"

#include <mpi.h>

#include "trainer/mpi/detail/mpi_engine.h"
#include "trainer/mpi/detail/mpi_sums.h"

namespace millrace::trainer {

class MpiProcesses::Impl final : public Transport {
 public:
  explicit Impl(const MpiOptions& options) : engine(options) {}

  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override {
    engine.exchange(outgoing, incoming);
  }
  std::unique_ptr<TransportSums> make_sums() override {
    return std::make_unique<detail::MpiSums>(engine);
  }
  void abort(const std::string& reason) noexcept override { engine.abort(reason); }

  detail::MpiEngine engine;
};

MpiProcesses::MpiProcesses(const MpiOptions& options) : impl_(std::make_unique<Impl>(options)) {}
MpiProcesses::~MpiProcesses() = default;

int MpiProcesses::process() const { return impl_->engine.process(); }
int MpiProcesses::processes() const { return impl_->engine.processes(); }
const std::string& MpiProcesses::host() const { return impl_->engine.host(); }
const std::vector<std::string>& MpiProcesses::hosts() const { return impl_->engine.hosts(); }
Transport& MpiProcesses::transport() { return *impl_; }
bool MpiProcesses::ended_by_another() const { return impl_->engine.ended_by_another(); }
std::string MpiProcesses::end_reason() const { return impl_->engine.end_reason(); }

Topology MpiProcesses::topology(int devices) const {
  return {.process = process(),
          .processes = processes(),
          .node_process = impl_->engine.node_process(),
          .node_processes = impl_->engine.node_processes(),
          .devices = devices};
}

std::string mpi_library() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int size = 0;
  MPI_Get_library_version(text.data(), &size);
  text.resize(static_cast<std::size_t>(size));
  return text.substr(0, text.find_first_of(",\n"));
}

}  // namespace millrace::trainer

#include "pipeline/pipeline.h"

#include <utility>

#include "pipeline/detail/pipeline_state.h"

namespace millrace::pipeline {

Pipeline::Pipeline(PipelineOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

bool Pipeline::next(Batch& batch) { return state_->next(batch); }
void Pipeline::stop() { state_->stop(); }
bool Pipeline::finished() const { return state_->is_finished(); }
Batch Pipeline::masked_batch() const { return state_->masked_batch(); }
const std::vector<BatchField>& Pipeline::fields() const { return state_->fields; }
Position Pipeline::position() const { return state_->position(); }
Statistics Pipeline::statistics() const { return state_->statistics(); }
std::shared_ptr<const wds::FaultLedger> Pipeline::ledger() const { return state_->ledger(); }
const PipelineOptions& Pipeline::options() const { return state_->options; }
std::size_t Pipeline::memory_bound_bytes() const { return state_->plan.bound_bytes; }

}  // namespace millrace::pipeline

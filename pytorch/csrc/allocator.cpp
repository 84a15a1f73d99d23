/* allocator.cpp - c10::Allocator over the heap. One deleter serves both kinds of blocks, since torch asks for raw_deleter() once. */
#include "allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <tandem/config.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace tandem {

namespace {

constexpr size_t least_block = size_t(64) << 10;
constexpr uint8_t priority = 1; /* torch's own has 0 */

heap *blocks;
c10::Allocator *before;
c10::DeleterFnPtr delete_before;

void delete_block(void *block)
{
    if (block == nullptr)
        return;
    if (!heap_holds(blocks, block)) {
        delete_before(block);
        return;
    }
    c10::profiledCPUMemoryReporter().Delete(block);
    heap_give(blocks, block);
}

class HeapAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(size_t nbytes) override
    {
        void *block = nbytes >= least_block ? heap_take(blocks, nbytes) : nullptr;
        if (block != nullptr) {
            c10::profiledCPUMemoryReporter().New(block, nbytes);
        } else {
            c10::DataPtr other = before->allocate(nbytes);
            block = other.get();
            other.release_context();
        }
        return {block, block, &delete_block, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
    void copy_data(void *to, const void *from, size_t nbytes) const override { default_copy_data(to, from, nbytes); }
};

/* Peers map the heaps of all ranks of a node: together they take at most twice the machine's memory of a rank's addresses. */
size_t default_bytes()
{
    const size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const char *text = std::getenv("LOCAL_WORLD_SIZE");
    const long ranks = text != nullptr ? std::atol(text) : 1;
    return ranks > 2 ? memory / static_cast<size_t>(ranks) * 2 : memory;
}

size_t wanted_bytes()
{
    const char *text = std::getenv("TANDEM_TORCH_HEAP");
    if (text == nullptr || *text == '\0')
        return default_bytes();
    size_t nbytes = 0;
    if (tdm_parse_size(text, "TANDEM_TORCH_HEAP", &nbytes) != TDM_OK)
        TORCH_CHECK_VALUE(false, tdm_error_text());
    return nbytes;
}

} // namespace

void install_allocator()
{
    const size_t nbytes = wanted_bytes();
    if (nbytes == 0 || blocks != nullptr)
        return;
    blocks = heap_open(nbytes);
    if (blocks == nullptr) {
        TORCH_WARN("tandem: no shared heap of ", nbytes, " bytes for tensors (", std::strerror(errno),
                   "): collectives copy instead; TANDEM_TORCH_HEAP=SIZE sets another size, 0 turns it off");
        return;
    }
    before = c10::GetCPUAllocator();
    delete_before = before->raw_deleter();
    TORCH_CHECK(delete_before != nullptr, "tandem: the CPU allocator in use cannot be wrapped; set TANDEM_TORCH_HEAP=0");
    c10::SetCPUAllocator(new HeapAllocator, priority); /* never freed: tensors outlive static objects */
    if (c10::GetCPUAllocator() == before)
        TORCH_WARN("tandem: another CPU allocator has a higher priority: collectives copy instead");
}

heap *tensor_heap()
{
    return blocks;
}

void make_reachable(const at::Tensor &tensor, size_t nbytes)
{
    const c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
    const void *block = storage->data();
    if (blocks != nullptr && nbytes == storage->nbytes() && heap_holds(blocks, block) && storage->data_ptr().get_deleter() == &delete_block)
        heap_share(blocks, const_cast<void *>(block));
}

} // namespace tandem

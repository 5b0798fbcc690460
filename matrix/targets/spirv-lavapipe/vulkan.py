"""Run compute shaders on a Vulkan device: one storage buffer for each argument of a kernel."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from ctypes import Structure, byref, c_char_p, c_float, c_int32, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple, TypeVar

from mlir_matrix.actions.api import ActionFailed, MachineFailed, gpu_program

#: Of the Vulkan registry (vk.xml): values of VkStructureType.
APPLICATION_INFO, INSTANCE_CREATE_INFO, QUEUE_CREATE_INFO, DEVICE_CREATE_INFO, SUBMIT_INFO = range(5)
MEMORY_ALLOCATE_INFO, FENCE_CREATE_INFO, BUFFER_CREATE_INFO, SHADER_MODULE_CREATE_INFO = 5, 8, 12, 16
SHADER_STAGE_CREATE_INFO, COMPUTE_PIPELINE_CREATE_INFO, PIPELINE_LAYOUT_CREATE_INFO = 18, 29, 30
SET_LAYOUT_CREATE_INFO, POOL_CREATE_INFO, SET_ALLOCATE_INFO, WRITE_SET = 32, 33, 34, 35
COMMAND_POOL_CREATE_INFO, COMMAND_BUFFER_ALLOCATE_INFO, COMMAND_BUFFER_BEGIN_INFO = 39, 40, 42
FEATURES_2, FEATURES_1_1, FEATURES_1_2 = 1000059000, 49, 51
STORAGE_BUFFER, BUFFER_USAGE, COMPUTE_STAGE, COMPUTE_BIND_POINT, COMPUTE_QUEUE = 7, 0x20, 0x20, 1, 2
#: Memory that the host sees without flushing it.
HOST_MEMORY = 0x2 | 0x4
VERSION_1_2 = 1 << 22 | 2 << 12
WHOLE, FOREVER = 2**64 - 1, 2**64 - 1
#: No device needs a larger alignment of buffers (minStorageBufferOffsetAlignment).
ALIGNMENT = 256
#: Bytes of VkPhysicalDeviceProperties before minStorageBufferOffsetAlignment, which is in its limits.
LEAST_ALIGNMENT = 296 + 328
#: VkResult by value.
RESULTS = {
    -1: "out of host memory", -2: "out of device memory", -3: "initialization failed", -4: "the device is lost",
    -7: "extension not present", -8: "feature not present", -9: "incompatible driver",
}  # fmt: skip
#: Those that no kernel causes.
OF_MACHINE = (-1, -2, -3, -7, -9)
#: SPIR-V: the word that begins a module, and the numbers of instructions and execution modes.
MAGIC, OP_ENTRY_POINT, OP_EXECUTION_MODE, OP_CAPABILITY, LOCAL_SIZE = 0x07230203, 15, 16, 17, 17
#: The capabilities of SPIR-V that a kernel may declare, and the device's features that they need: the structure and the
#: position in it. Shader and those that follow from it need none.
CAPABILITIES = {
    0: ("Matrix", None), 1: ("Shader", None), 9: ("Float16", (FEATURES_1_2, 7)), 10: ("Float64", (FEATURES_2, 39)),
    11: ("Int64", (FEATURES_2, 40)), 22: ("Int16", (FEATURES_2, 41)), 39: ("Int8", (FEATURES_1_2, 8)),
    4433: ("StorageBuffer16BitAccess", (FEATURES_1_1, 0)), 4434: ("UniformAndStorageBuffer16BitAccess", (FEATURES_1_1, 1)),
    4448: ("StorageBuffer8BitAccess", (FEATURES_1_2, 2)), 4449: ("UniformAndStorageBuffer8BitAccess", (FEATURES_1_2, 3)),
}  # fmt: skip


def record(**fields: Any) -> type[Any]:
    """Return a structure of Vulkan. It begins with its type and a pointer to the next one, as most do."""
    return type(
        "VulkanStructure", (Structure,), {"_fields_": [("type", c_uint32), ("next", c_void_p), *fields.items()]}
    )


_U, _P, _H = c_uint32, c_void_p, c_uint64
ApplicationInfo = record(app=c_char_p, app_version=_U, engine=c_char_p, engine_version=_U, api=_U)
InstanceInfo = record(flags=_U, application=_P, layers=_U, layer_names=_P, extensions=_U, extension_names=_P)
Features2 = record(values=_U * 55)
Features11 = record(values=_U * 12)
Features12 = record(values=_U * 47)
QueueInfo = record(flags=_U, family=_U, count=_U, priorities=_P)
DeviceInfo = record(flags=_U, queue_count=_U, queues=_P, layers=_U, layer_names=_P, extensions=_U, extension_names=_P, features=_P
)  # fmt: skip
BufferInfo = record(flags=_U, size=_H, usage=_U, sharing=_U, family_count=_U, families=_P)
AllocateInfo = record(size=_H, memory_type=_U)
ShaderInfo = record(flags=_U, size=ctypes.c_size_t, code=_P)
SetLayoutInfo = record(flags=_U, count=_U, bindings=_P)
LayoutInfo = record(flags=_U, count=_U, sets=_P, ranges=_U, push=_P)
StageInfo = record(flags=_U, stage=_U, module=_H, name=c_char_p, constants=_P)
PipelineInfo = record(flags=_U, stage=StageInfo, layout=_H, base=_H, base_index=c_int32)
PoolInfo = record(flags=_U, sets=_U, count=_U, sizes=_P)
SetInfo = record(pool=_H, count=_U, layouts=_P)
WriteSet = record(set=_H, binding=_U, element=_U, count=_U, kind=_U, images=_P, buffers=_P, views=_P
)  # fmt: skip
CommandPoolInfo = record(flags=_U, family=_U)
CommandsInfo = record(pool=_H, level=_U, count=_U)
BeginInfo = record(flags=_U, inheritance=_P)
FenceInfo = record(flags=_U)
SubmitInfo = record(waits=_U, semaphores=_P, masks=_P, count=_U, commands=_P, signals=_U, signaled=_P)


class Binding(Structure):
    _fields_ = (("binding", _U), ("kind", _U), ("count", _U), ("stages", _U), ("samplers", _P))


class BufferRange(Structure):
    _fields_ = (("buffer", _H), ("offset", _H), ("size", _H))


class Requirements(Structure):
    _fields_ = (("size", _H), ("alignment", _H), ("types", _U))


class Properties(Structure):
    """The beginning of VkPhysicalDeviceProperties; ``rest`` is longer than what follows of the limits."""

    _fields_ = (
        ("api", _U), ("driver", _U), ("vendor", _U), ("id", _U), ("kind", _U), ("name", ctypes.c_char * 256),
        ("cache", ctypes.c_uint8 * 16), ("limits", _U * 56), ("most_groups", _U * 3), ("rest", _U * 256),
    )  # fmt: skip


class MemoryTypes(Structure):
    _fields_ = (("count", _U), ("types", (_U * 2) * 32), ("heaps", _U), ("heap", (_H * 2) * 16))


def instructions(code: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the number and the operands of each instruction of a SPIR-V module. Raise ActionFailed for other bytes."""
    words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    if len(code) % 4 or len(words) < 5 or words[0] != MAGIC:
        raise ActionFailed("the kernel is no module of SPIR-V")
    at = 5
    while at < len(words):
        count, number = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or at + count > len(words):
            raise ActionFailed(f"the module of SPIR-V ends within an instruction, at word {at} of {len(words)}")
        yield number, words[at + 1 : at + count]
        at += count


#: Objects of Vulkan are pointers or numbers.
_Handle = TypeVar("_Handle", c_void_p, c_uint64)


class Kernel(NamedTuple):
    """A kernel as its module declares it: the name of its entry point, its threads in a block, its capabilities."""

    name: bytes
    block: tuple[int, ...]
    capabilities: tuple[int, ...]


def declared(code: bytes) -> Kernel:
    """Return what a module of SPIR-V declares of its only kernel."""
    names, capabilities = list[bytes](), list[int]()
    block: tuple[int, ...] = (1, 1, 1)
    for number, operands in instructions(code):
        if number == OP_CAPABILITY:
            capabilities.append(operands[0])
        elif number == OP_ENTRY_POINT:
            names.append(struct.pack(f"<{len(operands) - 2}I", *operands[2:]).partition(b"\0")[0])
        elif number == OP_EXECUTION_MODE and operands[1] == LOCAL_SIZE:
            block = operands[2:5]
    if len(names) != 1:
        raise ActionFailed(f"the module has {len(names)} entry points; expected one")
    return Kernel(names[0], block, tuple(capabilities))


class Pipeline(NamedTuple):
    """A kernel that the device can run, and the layouts of its arguments."""

    kernel: Kernel
    handle: c_uint64
    layout: c_uint64
    set_layout: c_uint64


class Device:
    """The first device of Vulkan, with all its features, and a buffer that all launches use."""

    def __init__(self, loader: str) -> None:
        """``loader``: the path of libvulkan.so.1. Raise MachineFailed if there is no device."""
        self._library = ctypes.CDLL(loader)
        application = ApplicationInfo(type=APPLICATION_INFO, api=VERSION_1_2)
        info = InstanceInfo(type=INSTANCE_CREATE_INFO, application=_address(application))
        self._instance = self._make("vkCreateInstance", byref(info), kind=c_void_p)
        self._physical = self._first_device()
        self._family = self._compute_family()
        self.properties = Properties()
        self._library.vkGetPhysicalDeviceProperties(self._physical, byref(self.properties))
        self._features = Features2(type=FEATURES_2)
        self._more = {FEATURES_1_1: Features11(type=FEATURES_1_1), FEATURES_1_2: Features12(type=FEATURES_1_2)}
        self._features.next = _address(self._more[FEATURES_1_1])
        self._more[FEATURES_1_1].next = _address(self._more[FEATURES_1_2])
        self._library.vkGetPhysicalDeviceFeatures2(self._physical, byref(self._features))
        self._more[FEATURES_2] = self._features
        self._device = self._new_device()
        self._queue = c_void_p()
        self._library.vkGetDeviceQueue(self._device, self._family, 0, byref(self._queue))
        self._pool = self._create(
            "vkCreateCommandPool", CommandPoolInfo(type=COMMAND_POOL_CREATE_INFO, family=self._family)
        )
        self._fence = self._create("vkCreateFence", FenceInfo(type=FENCE_CREATE_INFO))
        self._pipelines: dict[str, Pipeline] = {}
        self._buffer, self._memory, self._mapped, self._size = c_uint64(), c_uint64(), 0, 0

    @property
    def name(self) -> str:
        return bytes(self.properties.name).decode("utf-8", "replace")

    def load(self, name: str, code: bytes, arguments: int) -> None:
        """Prepare a kernel that has so many arguments. Raise ActionFailed if the device lacks a capability of it."""
        kernel = declared(code)
        for each in kernel.capabilities:
            word, feature = CAPABILITIES.get(each, (f"number {each}", (FEATURES_2, -1)))
            if feature and (feature[1] < 0 or not self._more[feature[0]].values[feature[1]]):
                raise ActionFailed(f"{self.name} does not have the capability {word}")
        module = self._create(
            "vkCreateShaderModule", ShaderInfo(type=SHADER_MODULE_CREATE_INFO, size=len(code), code=_bytes(code))
        )
        bindings = (Binding * arguments)(*(Binding(n, STORAGE_BUFFER, 1, COMPUTE_STAGE) for n in range(arguments)))
        set_layout = self._create(
            "vkCreateDescriptorSetLayout",
            SetLayoutInfo(type=SET_LAYOUT_CREATE_INFO, count=arguments, bindings=_address(bindings)),
        )
        layout = self._create(
            "vkCreatePipelineLayout", LayoutInfo(type=PIPELINE_LAYOUT_CREATE_INFO, count=1, sets=_address(set_layout))
        )
        stage = StageInfo(type=SHADER_STAGE_CREATE_INFO, stage=COMPUTE_STAGE, module=module, name=kernel.name)
        info = PipelineInfo(type=COMPUTE_PIPELINE_CREATE_INFO, stage=stage, layout=layout, base_index=-1)
        pipeline = c_uint64()
        self._call("vkCreateComputePipelines", self._device, c_uint64(), 1, byref(info), None, byref(pipeline))
        self._library.vkDestroyShaderModule(self._device, module, None)
        self._pipelines[name] = Pipeline(kernel, pipeline, layout, set_layout)

    def launch(
        self, name: str, grid: Sequence[int], block: Sequence[int], arguments: Sequence[tuple[int, int]]
    ) -> None:
        """Run a kernel on copies of its arguments, wait for it, and copy back what it changed.

        ``arguments``: the addresses where each begins and ends in this process.
        """
        pipeline = self._pipelines[name]
        if tuple(block) != pipeline.kernel.block:
            compiled = f"compiled for {pipeline.kernel.block}"
            raise ActionFailed(f"{name} is launched with blocks of {tuple(block)} threads and {compiled}")
        for axis, groups, most in zip("xyz", grid, self.properties.most_groups, strict=True):
            if groups > most:
                raise ActionFailed(f"{name} is launched with {groups} blocks along {axis}; {self.name} allows {most}")
        places, size = dict[tuple[int, int], int](), 0
        for begin, end in gpu_program.joined(arguments):
            places[begin, end] = size
            size += -(-max(end - begin, 1) // ALIGNMENT) * ALIGNMENT
        self._reserve(size)
        for (begin, end), place in places.items():
            ctypes.memmove(self._mapped + place, begin, end - begin)
        self._dispatch(pipeline, grid, [self._range(name, each, places) for each in arguments])
        for extent, place in places.items():
            gpu_program.copy_back(extent, self._mapped + place)

    def _range(self, name: str, argument: tuple[int, int], places: Mapping[tuple[int, int], int]) -> BufferRange:
        begin, end = argument
        inside, first = next(
            (place, first) for (first, last), place in places.items() if first <= begin and end <= last
        )
        (least,) = struct.unpack_from("<Q", bytes(self.properties), LEAST_ALIGNMENT)
        if (begin - first) % least:
            within = f"an argument of {name} begins {begin - first} bytes within another one"
            raise ActionFailed(f"{within}; {self.name} allows multiples of {least}")
        # Kernels that emulate small types read whole words.
        return BufferRange(self._buffer, inside + begin - first, max(-(-(end - begin) // 4) * 4, 4))

    def _dispatch(self, pipeline: Pipeline, grid: Sequence[int], ranges: Sequence[BufferRange]) -> None:
        size = (c_uint32 * 2)(STORAGE_BUFFER, max(len(ranges), 1))
        sets = self._create(
            "vkCreateDescriptorPool", PoolInfo(type=POOL_CREATE_INFO, sets=1, count=1, sizes=_address(size))
        )
        chosen = c_uint64()
        info = SetInfo(type=SET_ALLOCATE_INFO, pool=sets, count=1, layouts=_address(pipeline.set_layout))
        self._call("vkAllocateDescriptorSets", self._device, byref(info), byref(chosen))
        writes = (WriteSet * len(ranges))(
            *(
                WriteSet(WRITE_SET, None, chosen, n, 0, 1, STORAGE_BUFFER, None, _address(each))
                for n, each in enumerate(ranges)
            )
        )
        self._library.vkUpdateDescriptorSets(self._device, len(ranges), writes, 0, None)
        commands = c_void_p()
        allocated = CommandsInfo(type=COMMAND_BUFFER_ALLOCATE_INFO, pool=self._pool, count=1)
        self._call("vkAllocateCommandBuffers", self._device, byref(allocated), byref(commands))
        self._call("vkBeginCommandBuffer", commands, byref(BeginInfo(type=COMMAND_BUFFER_BEGIN_INFO, flags=1)))
        self._library.vkCmdBindPipeline(commands, COMPUTE_BIND_POINT, pipeline.handle)
        self._library.vkCmdBindDescriptorSets(
            commands, COMPUTE_BIND_POINT, pipeline.layout, 0, 1, byref(chosen), 0, None
        )
        self._library.vkCmdDispatch(commands, *grid)
        self._call("vkEndCommandBuffer", commands)
        submitted = SubmitInfo(type=SUBMIT_INFO, count=1, commands=_address(commands))
        self._call("vkQueueSubmit", self._queue, 1, byref(submitted), self._fence)
        self._call("vkWaitForFences", self._device, 1, byref(self._fence), 1, c_uint64(FOREVER))
        self._call("vkResetFences", self._device, 1, byref(self._fence))
        self._library.vkFreeCommandBuffers(self._device, self._pool, 1, byref(commands))
        self._library.vkDestroyDescriptorPool(self._device, sets, None)

    def _reserve(self, size: int) -> None:
        """Make the buffer large enough for the copies of a launch."""
        if size <= self._size:
            return
        self._library.vkDestroyBuffer(self._device, self._buffer, None)
        self._library.vkFreeMemory(self._device, self._memory, None)
        self._size = max(2 * self._size, -(-size // ALIGNMENT) * ALIGNMENT, 1 << 20)
        self._buffer = self._create(
            "vkCreateBuffer", BufferInfo(type=BUFFER_CREATE_INFO, size=self._size, usage=BUFFER_USAGE)
        )
        needs = Requirements()
        self._library.vkGetBufferMemoryRequirements(self._device, self._buffer, byref(needs))
        info = AllocateInfo(type=MEMORY_ALLOCATE_INFO, size=needs.size, memory_type=self._host_memory(needs.types))
        self._memory = self._create("vkAllocateMemory", info)
        self._call("vkBindBufferMemory", self._device, self._buffer, self._memory, c_uint64(0))
        mapped = c_void_p()
        self._call("vkMapMemory", self._device, self._memory, c_uint64(0), c_uint64(WHOLE), 0, byref(mapped))
        self._mapped = mapped.value or 0

    def _host_memory(self, allowed: int) -> int:
        """Return the first type of memory that the host sees."""
        found = MemoryTypes()
        self._library.vkGetPhysicalDeviceMemoryProperties(self._physical, byref(found))
        for number in range(found.count):
            if allowed >> number & 1 and found.types[number][0] & HOST_MEMORY == HOST_MEMORY:
                return number
        raise MachineFailed(f"{self.name} has no memory that the host sees")

    def _first_device(self) -> c_void_p:
        count = c_uint32()
        self._call("vkEnumeratePhysicalDevices", self._instance, byref(count), None)
        if not count.value:
            raise MachineFailed("Vulkan has no device")
        found = (c_void_p * count.value)()
        self._call("vkEnumeratePhysicalDevices", self._instance, byref(count), found)
        return c_void_p(found[0])

    def _compute_family(self) -> int:
        count = c_uint32()
        self._library.vkGetPhysicalDeviceQueueFamilyProperties(self._physical, byref(count), None)
        # VkQueueFamilyProperties begins with its flags and has six words.
        found = ((c_uint32 * 6) * count.value)()
        self._library.vkGetPhysicalDeviceQueueFamilyProperties(self._physical, byref(count), found)
        for number, family in enumerate(found):
            if family[0] & COMPUTE_QUEUE:
                return number
        raise MachineFailed("the Vulkan device has no queue for compute shaders")

    def _new_device(self) -> c_void_p:
        priority = c_float(1.0)
        queue = QueueInfo(type=QUEUE_CREATE_INFO, family=self._family, count=1, priorities=_address(priority))
        info = DeviceInfo(type=DEVICE_CREATE_INFO, queue_count=1, queues=_address(queue), next=_address(self._features))
        return self._make("vkCreateDevice", self._physical, byref(info), kind=c_void_p)

    def _create(self, function: str, info: Structure) -> c_uint64:
        """Return the handle that a function with the usual four parameters makes."""
        return self._make(function, self._device, byref(info), kind=c_uint64)

    def _make(self, function: str, *arguments: Any, kind: type[_Handle]) -> _Handle:
        made = kind()
        self._call(function, *arguments, None, byref(made))
        return made

    def _call(self, function: str, *arguments: Any) -> None:
        result = getattr(self._library, function)(*arguments)
        if result < 0:
            reason = f"{function}: {RESULTS.get(result, f'error {result}')}"
            raise MachineFailed(reason) if result in OF_MACHINE else ActionFailed(reason)


def _address(value: Any) -> int:
    return ctypes.addressof(value)


def _bytes(code: bytes) -> int | None:
    return ctypes.cast(ctypes.c_char_p(code), c_void_p).value

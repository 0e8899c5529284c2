# SPDX-License-Identifier: MIT
# A GPU driver in software, once as CUDA's and once as HIP's; see emulated.h.

EMULATED     := $(if $(CUDA_HEADERS),cuda) $(if $(HIP_HEADERS),hip)
EMULATED_SRC := $(addprefix selftests/gpu-emulated/,driver.c kernels.cc)

# $(call emulated,WHICH,VARIANT)
define emulated_rule
$(B)/test/$(2)/lib$(1)-emulated.so: $(EMULATED_SRC) $(addprefix selftests/gpu-emulated/,emulated.h block.hh) $(STD_CU) $(PASSES_CU) $(BLAS_CU) \
		selftests/system/kernels/systest.cu examples/kernels/montecarlo.cu
	@mkdir -p $$(@D)
	$(say) LINK $$@
	$(Q)$$(CC) $$(CFLAGS_BASE) $$(CFLAGS_$(2)) $$(CPPFLAGS_ALL) $$(CUDA_INCLUDE) \
		$(if $(filter cuda,$(1)),-DEMULATED_CUDA) -fvisibility=hidden -c -o $$@.o $$<
	$(Q)$$(CXX) -std=gnu++17 -g -Wall -Wextra -Werror -Wno-unused-parameter $$(CFLAGS_$(2)) \
		$$(CPPFLAGS_ALL) -ffp-contract=off -fvisibility=hidden -shared \
		$$(LDFLAGS_$(2)) -pthread -o $$@ $$@.o selftests/gpu-emulated/kernels.cc
endef
$(foreach w,$(EMULATED),$(foreach v,plain asan tsan,$(eval $(call emulated_rule,$(w),$(v)))))

# What says how busy CUDA's devices are.
EMULATED_NVML := $(if $(CUDA_HEADERS),nvml)
define emulated_nvml_rule
$(B)/test/$(1)/libnvml-emulated.so: selftests/gpu-emulated/nvml.c
	@mkdir -p $$(@D)
	$(say) LINK $$@
	$(Q)$$(CC) $$(CFLAGS_BASE) $$(CFLAGS_$(1)) $$(CPPFLAGS_ALL) -fvisibility=hidden -shared \
		$$(LDFLAGS_$(1)) -o $$@ $$<
endef
$(foreach v,plain asan tsan,$(eval $(call emulated_nvml_rule,$(v))))

# The backend for HIP as a plug-in: what a file's descriptor is needed for.
EMULATED_PLUGIN := $(if $(HIP_HEADERS),hip-plugin)
PLUGIN_GPU_SRCS := $(addprefix daemon/backends/,$(addprefix gpu/,device.c hip.c kernel.c memory.c \
		     module.c nvml.c ptx.c run.c stream.c wait.c) options.c params.c streams.c)
define emulated_plugin_rule
$(B)/test/$(1)/libhip-plugin-emulated.so: daemon/backends/gpu/backend.c $(PLUGIN_GPU_SRCS) \
		$(wildcard daemon/backends/gpu/*.h) daemon/backend.h
	@mkdir -p $$(@D)
	$(say) LINK $$@
	$(Q)$$(CC) $$(CFLAGS_BASE) $$(CFLAGS_$(1)) $$(CPPFLAGS_ALL) -DGPU_HAS_HIP -DGPU_HIP_NVIDIA \
		-fvisibility=hidden -c -o $$@.o $$<
	$(Q)$$(CC) $$(CFLAGS_BASE) $$(CFLAGS_$(1)) $$(CPPFLAGS_ALL) -DGPU_HAS_HIP -fvisibility=hidden \
		-shared $$(LDFLAGS_$(1)) -o $$@ $$@.o $(PLUGIN_GPU_SRCS) -ldl
	$(Q)chmod go-w $$@ $$(@D)
endef
$(foreach v,plain asan tsan,$(eval $(call emulated_plugin_rule,$(v))))

# What puts work onto its streams, under the names that vendors' libraries have; and the file by
# which AMD's is seen to have kernels for EMULATED_GFX.  $(1): cuda or hip, $(2): variant,
# $(3): source, $(4): name.
define emulated_vendor_rule
$(B)/test/$(2)/vendors-emulated/$(4): selftests/gpu-emulated/$(3) selftests/gpu-emulated/emulated.h \
		$(wildcard daemon/kernels/*/*_api.h) $(B)/test/$(2)/lib$(1)-emulated.so
	@mkdir -p $$(@D)/rocblas/library && touch $$(@D)/rocblas/library/TensileLibrary_lazy_gfx90a.dat
	$(say) LINK $$@
	$(Q)$$(CC) $$(CFLAGS_BASE) $$(CFLAGS_$(2)) $$(CPPFLAGS_ALL) $$(CUDA_INCLUDE) \
		$(if $(filter cuda,$(1)),-DEMULATED_CUDA) -fvisibility=hidden -shared $$(LDFLAGS_$(2)) \
		-o $$@ $$< -L$(B)/test/$(2) -l:lib$(1)-emulated.so -Wl,-rpath,'$$$$ORIGIN/..' -lm
EMULATED_VENDORS_$(2) += $(B)/test/$(2)/vendors-emulated/$(4)
endef
$(foreach v,plain asan tsan,\
	$(if $(CUBLAS_HEADER),$(eval $(call emulated_vendor_rule,cuda,$(v),blas.c,libcublas.so.13))) \
	$(if $(CUFFT_HEADER),$(eval $(call emulated_vendor_rule,cuda,$(v),fft.c,libcufft.so.12))) \
	$(if $(HIP_HEADERS),$(eval $(call emulated_vendor_rule,hip,$(v),blas.c,librocblas.so.4))) \
	$(if $(HIP_HEADERS),$(eval $(call emulated_vendor_rule,hip,$(v),fft.c,libhipfft.so.0))))
# $(call with_vendors,VARIANT): a command that finds these.
with_vendors = env LD_LIBRARY_PATH=$(abspath $(B)/test/$(1)/vendors-emulated)

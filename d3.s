	.file	"<string>"
	.section	.ltext,"axl",@progbits
	.globl	_ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE
	.p2align	4
	.type	_ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE,@function
_ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%r13
	.cfi_def_cfa_offset 40
	pushq	%r12
	.cfi_def_cfa_offset 48
	pushq	%rbx
	.cfi_def_cfa_offset 56
	.cfi_offset %rbx, -56
	.cfi_offset %r12, -48
	.cfi_offset %r13, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	movq	336(%rsp), %rax
	cmpq	$0, 376(%rsp)
	movq	%rdi, -8(%rsp)
	movq	(%rax), %rdx
	movq	8(%rax), %rcx
	jle	.LBB0_6
	movq	280(%rsp), %r10
	movq	224(%rsp), %r11
	movq	168(%rsp), %r14
	movq	112(%rsp), %r15
	movq	56(%rsp), %r12
	vpcmpeqd	%ymm0, %ymm0, %ymm0
	vpternlogd	$255, %zmm1, %zmm1, %zmm1
	xorl	%ebp, %ebp
	jmp	.LBB0_2
	.p2align	4
.LBB0_3:
	movq	448(%rsp), %rax
	incq	%rcx
	movl	$-1, (%rax,%rbp,4)
.LBB0_5:
	incq	%rbp
	incq	%rdx
	cmpq	376(%rsp), %rbp
	je	.LBB0_6
.LBB0_2:
	movq	392(%rsp), %rax
	movl	(%rax,%rbp,4), %esi
	movl	$4294967295, %eax
	movl	(%r10,%rsi,4), %r13d
	movl	%edx, (%r10,%rsi,4)
	cmpq	%rax, %r13
	je	.LBB0_3
	movl	%r13d, %r9d
	shrl	$6, %r9d
	movzbl	(%r12,%r13), %esi
	movl	%r13d, %r8d
	shrl	$12, %r8d
	movl	%r13d, %edi
	shrl	$18, %edi
	movl	%r13d, %ebx
	notl	%ebx
	movzwl	(%r15,%r9,2), %eax
	andl	$63, %ebx
	notl	%r9d
	andl	$63, %r9d
	addl	%r9d, %r9d
	addl	%esi, %eax
	addl	(%r14,%r8,4), %eax
	movq	448(%rsp), %rsi
	notl	%r8d
	addl	(%r11,%rdi,4), %eax
	andl	$63, %r8d
	shll	$2, %r8d
	notl	%eax
	addl	%ecx, %eax
	movl	%eax, (%rsi,%rbp,4)
	movl	%r13d, %eax
	andl	$-64, %eax
	movabsq	$.const.array.data, %rsi
	vmovdqu64	(%r12,%rax), %zmm2
	vpsubb	(%rbx,%rsi), %zmm2, %zmm2
	movabsq	$.const.array.data.1, %rsi
	vmovdqu64	%zmm2, (%r12,%rax)
	movl	%r13d, %eax
	shrl	$5, %eax
	shrl	$10, %r13d
	andl	$-128, %eax
	andl	$4194048, %r13d
	vmovdqu64	(%r15,%rax), %zmm2
	vmovdqu64	64(%r15,%rax), %zmm3
	vpsubw	(%r9,%rsi), %zmm2, %zmm2
	movabsq	$.const.array.data.1+64, %rsi
	vpsubw	(%r9,%rsi), %zmm3, %zmm3
	vmovdqu64	%zmm2, (%r15,%rax)
	vmovdqu64	%zmm3, 64(%r15,%rax)
	movabsq	$.const.array.data.2, %rax
	vmovdqu64	(%r14,%r13), %zmm2
	vmovdqu64	64(%r14,%r13), %zmm3
	vmovdqu64	128(%r14,%r13), %zmm4
	vmovdqu64	192(%r14,%r13), %zmm5
	vpsubd	(%r8,%rax), %zmm2, %zmm2
	movabsq	$.const.array.data.2+64, %rax
	vpsubd	(%r8,%rax), %zmm3, %zmm3
	movabsq	$.const.array.data.2+128, %rax
	vpsubd	(%r8,%rax), %zmm4, %zmm4
	movabsq	$.const.array.data.2+192, %rax
	vpsubd	(%r8,%rax), %zmm5, %zmm5
	movq	208(%rsp), %r8
	vmovdqu64	%zmm2, (%r14,%r13)
	vmovdqu64	%zmm3, 64(%r14,%r13)
	vmovdqu64	%zmm4, 128(%r14,%r13)
	vmovdqu64	%zmm5, 192(%r14,%r13)
	leaq	1(%rdi), %r13
	subq	%r13, %r8
	testq	%r8, %r8
	jle	.LBB0_5
	cmpq	$8, %r8
	jae	.LBB0_9
.LBB0_19:
	movq	%r8, %rdi
	jmp	.LBB0_20
.LBB0_9:
	cmpq	$64, %r8
	jae	.LBB0_14
	xorl	%ebx, %ebx
	jmp	.LBB0_11
.LBB0_14:
	leaq	196(%r11), %rsi
	movabsq	$9223372036854775744, %rax
	movq	%r8, %rbx
	xorl	%r9d, %r9d
	leaq	(%rsi,%rdi,4), %rdi
	andq	%rax, %rbx
	.p2align	4
.LBB0_15:
	vpaddd	-192(%rdi,%r9,4), %zmm1, %zmm2
	vpaddd	-128(%rdi,%r9,4), %zmm1, %zmm3
	vpaddd	-64(%rdi,%r9,4), %zmm1, %zmm4
	vpaddd	(%rdi,%r9,4), %zmm1, %zmm5
	vmovdqu64	%zmm2, -192(%rdi,%r9,4)
	vmovdqu64	%zmm3, -128(%rdi,%r9,4)
	vmovdqu64	%zmm4, -64(%rdi,%r9,4)
	vmovdqu64	%zmm5, (%rdi,%r9,4)
	addq	$64, %r9
	cmpq	%r9, %rbx
	jne	.LBB0_15
	cmpq	%rbx, %r8
	je	.LBB0_5
	testb	$56, %r8b
	je	.LBB0_18
.LBB0_11:
	movabsq	$9223372036854775744, %rax
	leaq	(%r11,%r13,4), %rsi
	movl	%r8d, %edi
	andl	$7, %edi
	leaq	56(%rax), %r9
	andq	%r8, %r9
	addq	%r9, %r13
	.p2align	4
.LBB0_12:
	vpaddd	(%rsi,%rbx,4), %ymm0, %ymm2
	vmovdqu	%ymm2, (%rsi,%rbx,4)
	addq	$8, %rbx
	cmpq	%rbx, %r9
	jne	.LBB0_12
	cmpq	%r9, %r8
	je	.LBB0_5
.LBB0_20:
	incq	%rdi
	leaq	(%r11,%r13,4), %r8
	.p2align	4
.LBB0_4:
	decl	(%r8)
	decq	%rdi
	addq	$4, %r8
	cmpq	$1, %rdi
	ja	.LBB0_4
	jmp	.LBB0_5
.LBB0_18:
	andl	$63, %r8d
	addq	%rbx, %r13
	jmp	.LBB0_19
.LBB0_6:
	movq	336(%rsp), %rax
	movq	%rdx, (%rax)
	movq	%rcx, 8(%rax)
	movq	-8(%rsp), %rax
	movq	$0, (%rax)
	xorl	%eax, %eax
	popq	%rbx
	.cfi_def_cfa_offset 48
	popq	%r12
	.cfi_def_cfa_offset 40
	popq	%r13
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	vzeroupper
	retq
.Lfunc_end0:
	.size	_ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE, .Lfunc_end0-_ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE
	.cfi_endproc

	.globl	_ZN7cpython8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE
	.p2align	4
	.type	_ZN7cpython8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE,@function
_ZN7cpython8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%r13
	.cfi_def_cfa_offset 40
	pushq	%r12
	.cfi_def_cfa_offset 48
	pushq	%rbx
	.cfi_def_cfa_offset 56
	subq	$1064, %rsp
	.cfi_def_cfa_offset 1120
	.cfi_offset %rbx, -56
	.cfi_offset %r12, -48
	.cfi_offset %r13, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	movq	%rsi, %rdi
	leaq	536(%rsp), %rax
	movabsq	$.const.distances, %rsi
	movabsq	$PyArg_UnpackTuple, %r10
	leaq	552(%rsp), %r8
	leaq	544(%rsp), %r9
	movl	$3, %edx
	movl	$3, %ecx
	xorl	%ebx, %ebx
	movq	%rax, (%rsp)
	xorl	%eax, %eax
	callq	*%r10
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 944(%rsp)
	vmovups	%ymm0, 880(%rsp)
	vmovups	%ymm0, 624(%rsp)
	vmovups	%ymm0, 816(%rsp)
	vmovups	%ymm0, 752(%rsp)
	vmovups	%ymm0, 560(%rsp)
	vmovups	%ymm0, 688(%rsp)
	vmovups	%ymm0, 968(%rsp)
	vmovups	%ymm0, 904(%rsp)
	vmovups	%ymm0, 648(%rsp)
	vmovups	%ymm0, 840(%rsp)
	vmovups	%ymm0, 776(%rsp)
	vmovups	%ymm0, 584(%rsp)
	vmovups	%ymm0, 712(%rsp)
	testl	%eax, %eax
	je	.LBB1_21
	movabsq	$_ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE, %rax
	cmpq	$0, (%rax)
	je	.LBB1_26
	movq	552(%rsp), %r12
	movabsq	$PyTuple_Size, %rax
	movq	%r12, %rdi
	vzeroupper
	callq	*%rax
	cmpq	$6, %rax
	setne	%bl
	jne	.LBB1_32
.LBB1_3:
	movabsq	$PyTuple_GetItem, %r13
	movq	%r12, %rdi
	xorl	%esi, %esi
	callq	*%r13
	movabsq	$NRT_adapt_ndarray_from_python, %r14
	leaq	1008(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 1008(%rsp)
	movq	%rax, %rdi
	vmovups	%ymm0, 1032(%rsp)
	vzeroupper
	callq	*%r14
	testl	%eax, %eax
	jne	.LBB1_27
	cmpq	$1, 1032(%rsp)
	jne	.LBB1_27
.LBB1_5:
	movq	1040(%rsp), %rax
	movq	1008(%rsp), %r15
	movl	$1, %esi
	movq	%r12, %rdi
	movq	%rax, 416(%rsp)
	callq	*%r13
	leaq	944(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 944(%rsp)
	movq	%rax, %rdi
	vmovups	%ymm0, 968(%rsp)
	vzeroupper
	callq	*%r14
	testl	%eax, %eax
	jne	.LBB1_28
	cmpq	$2, 968(%rsp)
	jne	.LBB1_28
.LBB1_7:
	movq	944(%rsp), %rax
	movq	976(%rsp), %rcx
	movl	$2, %esi
	movq	%r12, %rdi
	movq	%rax, 464(%rsp)
	movq	%rcx, 528(%rsp)
	callq	*%r13
	leaq	880(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 880(%rsp)
	movq	%rax, %rdi
	vmovups	%ymm0, 904(%rsp)
	vzeroupper
	callq	*%r14
	testl	%eax, %eax
	jne	.LBB1_29
	cmpq	$4, 904(%rsp)
	jne	.LBB1_29
.LBB1_9:
	movq	880(%rsp), %rax
	movq	912(%rsp), %rcx
	movl	$3, %esi
	movq	%r12, %rdi
	movq	%rax, 456(%rsp)
	movq	%rcx, 520(%rsp)
	callq	*%r13
	leaq	624(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 624(%rsp)
	movq	%rax, %rdi
	vmovups	%ymm0, 648(%rsp)
	vzeroupper
	callq	*%r14
	testl	%eax, %eax
	jne	.LBB1_30
	cmpq	$4, 648(%rsp)
	jne	.LBB1_30
.LBB1_11:
	movq	624(%rsp), %rax
	movq	640(%rsp), %rdx
	movq	656(%rsp), %rcx
	movl	$4, %esi
	movq	%r12, %rdi
	movq	%rax, 448(%rsp)
	movq	%rdx, 512(%rsp)
	movq	%rcx, 504(%rsp)
	callq	*%r13
	leaq	816(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 816(%rsp)
	movq	%rax, %rdi
	vmovups	%ymm0, 840(%rsp)
	vzeroupper
	callq	*%r14
	testl	%eax, %eax
	jne	.LBB1_31
	cmpq	$4, 840(%rsp)
	jne	.LBB1_31
.LBB1_13:
	movq	816(%rsp), %rax
	movq	848(%rsp), %rcx
	movl	$5, %esi
	movq	%r12, %rdi
	movq	%rax, 440(%rsp)
	movq	%rcx, 496(%rsp)
	callq	*%r13
	leaq	752(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 752(%rsp)
	movq	%rax, %rdi
	vmovups	%ymm0, 776(%rsp)
	vzeroupper
	callq	*%r14
	cmpq	$8, 776(%rsp)
	setne	%cl
	testl	%eax, %eax
	setne	%bpl
	orb	%cl, %bpl
	cmpb	$1, %bpl
	je	.LBB1_33
	orb	%bpl, %bl
	jne	.LBB1_34
.LBB1_15:
	movq	752(%rsp), %rax
	movq	544(%rsp), %rdi
	movq	784(%rsp), %rbp
	leaq	560(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 560(%rsp)
	vmovups	%ymm0, 584(%rsp)
	movq	%rax, 424(%rsp)
	vzeroupper
	callq	*%r14
	testl	%eax, %eax
	jne	.LBB1_35
	cmpq	$4, 584(%rsp)
	jne	.LBB1_35
	movq	536(%rsp), %rdi
	movq	%r15, 432(%rsp)
	movq	560(%rsp), %rbx
	movq	576(%rsp), %r15
	movq	592(%rsp), %r12
	leaq	688(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 688(%rsp)
	vmovups	%ymm0, 712(%rsp)
	vzeroupper
	callq	*%r14
	testl	%eax, %eax
	jne	.LBB1_36
	cmpq	$4, 712(%rsp)
	jne	.LBB1_36
	movq	688(%rsp), %r14
	movq	720(%rsp), %r13
	movabsq	$PyEval_SaveThread, %rax
	movq	%rbx, 480(%rsp)
	movq	%r14, 488(%rsp)
	callq	*%rax
	movq	496(%rsp), %rdx
	movq	504(%rsp), %rdi
	movq	%r13, 392(%rsp)
	movq	%r12, 336(%rsp)
	movq	%r15, 320(%rsp)
	movq	%rbp, 280(%rsp)
	movq	%r14, 360(%rsp)
	movq	440(%rsp), %r13
	movq	448(%rsp), %r14
	movq	456(%rsp), %r15
	movq	464(%rsp), %rbp
	movq	432(%rsp), %r12
	movq	%rax, 472(%rsp)
	movabsq	$_ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE, %rax
	movq	%rbx, 304(%rsp)
	movq	%rdx, 224(%rsp)
	movq	512(%rsp), %rdx
	movq	%rdi, 168(%rsp)
	movq	520(%rsp), %rdi
	movq	%r13, 192(%rsp)
	movq	%r14, 136(%rsp)
	movq	%r15, 80(%rsp)
	movq	%rbp, 24(%rsp)
	movq	%rdx, 152(%rsp)
	movq	424(%rsp), %rdx
	movq	%rdi, 112(%rsp)
	movq	528(%rsp), %rdi
	movq	%rdx, 248(%rsp)
	movq	416(%rsp), %rdx
	movq	%rdi, 56(%rsp)
	leaq	1000(%rsp), %rdi
	movq	%rdx, (%rsp)
	movq	%r12, %rdx
	callq	*%rax
	movq	472(%rsp), %rdi
	movl	%eax, 416(%rsp)
	movabsq	$PyEval_RestoreThread, %rax
	callq	*%rax
	movabsq	$NRT_decref, %rbx
	movq	%r12, %rdi
	callq	*%rbx
	movq	%rbp, %rdi
	callq	*%rbx
	movq	%r15, %rdi
	callq	*%rbx
	movq	%r14, %rdi
	callq	*%rbx
	movq	%r13, %rdi
	callq	*%rbx
	movq	424(%rsp), %rdi
	callq	*%rbx
	movq	480(%rsp), %rdi
	callq	*%rbx
	movq	488(%rsp), %rdi
	callq	*%rbx
	movl	416(%rsp), %eax
	testl	%eax, %eax
	jne	.LBB1_22
	movabsq	$_Py_NoneStruct, %rbx
	movabsq	$Py_IncRef, %rax
	movq	%rbx, %rdi
	callq	*%rax
.LBB1_21:
	movq	%rbx, %rax
	addq	$1064, %rsp
	.cfi_def_cfa_offset 56
	popq	%rbx
	.cfi_def_cfa_offset 48
	popq	%r12
	.cfi_def_cfa_offset 40
	popq	%r13
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	vzeroupper
	retq
.LBB1_22:
	.cfi_def_cfa_offset 1120
	jg	.LBB1_41
	cmpl	$-1, %eax
	je	.LBB1_34
	cmpl	$-3, %eax
	jne	.LBB1_39
	movabsq	$PyExc_StopIteration, %rdi
	movabsq	$PyErr_SetNone, %rax
	callq	*%rax
	xorl	%ebx, %ebx
	jmp	.LBB1_21
.LBB1_26:
	movabsq	$PyExc_RuntimeError, %rdi
	movabsq	$".const.missing Environment: _ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE", %rsi
	jmp	.LBB1_40
.LBB1_27:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	movb	$1, %bl
	jmp	.LBB1_5
.LBB1_28:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	movb	$1, %bl
	jmp	.LBB1_7
.LBB1_29:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	movb	$1, %bl
	jmp	.LBB1_9
.LBB1_30:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	movb	$1, %bl
	jmp	.LBB1_11
.LBB1_31:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	movb	$1, %bl
	jmp	.LBB1_13
.LBB1_32:
	movabsq	$PyExc_ValueError, %rdi
	movabsq	$".const.size mismatch for tuple, expected 6 element(s) but got %zd", %rsi
	movabsq	$PyErr_Format, %rcx
	movq	%rax, %rdx
	xorl	%eax, %eax
	callq	*%rcx
	jmp	.LBB1_3
.LBB1_33:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	orb	%bpl, %bl
	je	.LBB1_15
	jmp	.LBB1_34
.LBB1_35:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	jmp	.LBB1_37
.LBB1_36:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	movabsq	$NRT_decref, %rax
	movq	%rbx, %rdi
	callq	*%rax
	movq	432(%rsp), %r15
.LBB1_37:
	movabsq	$NRT_decref, %rbx
	movq	%r15, %rdi
	callq	*%rbx
	movq	464(%rsp), %rdi
	callq	*%rbx
	movq	456(%rsp), %rdi
	callq	*%rbx
	movq	448(%rsp), %rdi
	callq	*%rbx
	movq	440(%rsp), %rdi
	callq	*%rbx
	movq	424(%rsp), %rdi
	callq	*%rbx
.LBB1_34:
	xorl	%ebx, %ebx
	jmp	.LBB1_21
.LBB1_39:
	movabsq	$PyExc_SystemError, %rdi
	movabsq	$".const.unknown error when calling native function", %rsi
.LBB1_40:
	movabsq	$PyErr_SetString, %rax
	vzeroupper
	callq	*%rax
	xorl	%ebx, %ebx
	jmp	.LBB1_21
.LBB1_41:
	movabsq	$PyErr_Clear, %rax
	callq	*%rax
.Lfunc_end1:
	.size	_ZN7cpython8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE, .Lfunc_end1-_ZN7cpython8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE
	.cfi_endproc

	.globl	cfunc._ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE
	.p2align	4
	.type	cfunc._ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE,@function
cfunc._ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%r13
	.cfi_def_cfa_offset 40
	pushq	%r12
	.cfi_def_cfa_offset 48
	pushq	%rbx
	.cfi_def_cfa_offset 56
	subq	$440, %rsp
	.cfi_def_cfa_offset 496
	.cfi_offset %rbx, -56
	.cfi_offset %r12, -48
	.cfi_offset %r13, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	movq	816(%rsp), %rdx
	movq	%rdi, %rsi
	movq	592(%rsp), %rdi
	movq	872(%rsp), %rax
	movq	616(%rsp), %r9
	movq	632(%rsp), %r10
	movq	648(%rsp), %r11
	movq	672(%rsp), %rbx
	movq	704(%rsp), %r14
	movq	728(%rsp), %r15
	movq	760(%rsp), %r12
	movq	784(%rsp), %r13
	movq	800(%rsp), %rbp
	movq	840(%rsp), %rcx
	movq	$0, 432(%rsp)
	movq	%r8, (%rsp)
	movq	%rdx, 336(%rsp)
	movq	560(%rsp), %rdx
	movq	%rdi, 112(%rsp)
	movq	536(%rsp), %rdi
	movq	%rax, 392(%rsp)
	movabsq	$_ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE, %rax
	movq	%rcx, 360(%rsp)
	movq	%rbp, 320(%rsp)
	movq	%r13, 304(%rsp)
	movq	%r12, 280(%rsp)
	movq	%r15, 248(%rsp)
	movq	%r14, 224(%rsp)
	movq	%rbx, 192(%rsp)
	movq	%r11, 168(%rsp)
	movq	%r10, 152(%rsp)
	movq	%r9, 136(%rsp)
	movq	%rdx, 80(%rsp)
	movq	504(%rsp), %rdx
	movq	%rdi, 56(%rsp)
	leaq	432(%rsp), %rdi
	movq	%rdx, 24(%rsp)
	movq	%rsi, %rdx
	callq	*%rax
	movq	432(%rsp), %rcx
	movl	$0, 428(%rsp)
	testl	%eax, %eax
	jne	.LBB2_1
.LBB2_5:
	movq	%rcx, %rax
	addq	$440, %rsp
	.cfi_def_cfa_offset 56
	popq	%rbx
	.cfi_def_cfa_offset 48
	popq	%r12
	.cfi_def_cfa_offset 40
	popq	%r13
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.LBB2_1:
	.cfi_def_cfa_offset 496
	movabsq	$numba_gil_ensure, %r15
	leaq	428(%rsp), %rdi
	movq	%rcx, %r14
	movl	%eax, %ebx
	callq	*%r15
	testl	%ebx, %ebx
	jg	.LBB2_2
	movl	%ebx, %eax
	cmpl	$-1, %ebx
	je	.LBB2_4
	cmpl	$-3, %eax
	jne	.LBB2_3
	movabsq	$PyExc_StopIteration, %rdi
	movabsq	$PyErr_SetNone, %rax
	callq	*%rax
	jmp	.LBB2_4
.LBB2_3:
	movabsq	$PyExc_SystemError, %rdi
	movabsq	$".const.unknown error when calling native function.2", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
.LBB2_4:
	movabsq	$".const.<numba.core.cpu.CPUContext>", %rdi
	movabsq	$PyUnicode_FromString, %rax
	callq	*%rax
	movabsq	$PyErr_WriteUnraisable, %r15
	movq	%rax, %rbx
	movq	%rbx, %rdi
	callq	*%r15
	movabsq	$Py_DecRef, %rax
	movq	%rbx, %rdi
	callq	*%rax
	movabsq	$numba_gil_release, %rax
	leaq	428(%rsp), %rdi
	callq	*%rax
	movq	%r14, %rcx
	jmp	.LBB2_5
.LBB2_2:
	movabsq	$PyErr_Clear, %rax
	callq	*%rax
.Lfunc_end2:
	.size	cfunc._ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE, .Lfunc_end2-cfunc._ZN8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE
	.cfi_endproc

	.weak	NRT_decref
	.p2align	4
	.type	NRT_decref,@function
NRT_decref:
	.cfi_startproc
	testq	%rdi, %rdi
	je	.LBB3_2
	#MEMBARRIER
	lock		decq	(%rdi)
	je	.LBB3_3
.LBB3_2:
	retq
.LBB3_3:
	movabsq	$NRT_MemInfo_call_dtor, %rax
	#MEMBARRIER
	jmpq	*%rax
.Lfunc_end3:
	.size	NRT_decref, .Lfunc_end3-NRT_decref
	.cfi_endproc

	.weak	NRT_incref
	.p2align	4
	.type	NRT_incref,@function
NRT_incref:
	testq	%rdi, %rdi
	je	.LBB4_2
	lock		incq	(%rdi)
.LBB4_2:
	retq
.Lfunc_end4:
	.size	NRT_incref, .Lfunc_end4-NRT_incref

	.type	.const.array.data,@object
	.section	.lrodata,"al",@progbits
.const.array.data:
	.ascii	"\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001"
	.size	.const.array.data, 128

	.type	.const.array.data.1,@object
	.p2align	1, 0x0
.const.array.data.1:
	.asciz	"\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001\000\001"
	.size	.const.array.data.1, 256

	.type	.const.array.data.2,@object
	.p2align	2, 0x0
.const.array.data.2:
	.asciz	"\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000\000\001\000\000"
	.size	.const.array.data.2, 512

	.type	.const.distances,@object
.const.distances:
	.asciz	"distances"
	.size	.const.distances, 10

	.type	_ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE,@object
	.comm	_ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE,8,8
	.type	".const.missing Environment: _ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE",@object
	.p2align	4, 0x0
".const.missing Environment: _ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE":
	.asciz	"missing Environment: _ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE"
	.size	".const.missing Environment: _ZN08NumbaEnv8__main__9distancesB2v1B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_295ArrayIjLi1E1C7mutable7alignedE5ArrayIjLi1E1C7mutable7alignedE", 397

	.type	".const.size mismatch for tuple, expected 6 element(s) but got %zd",@object
	.p2align	4, 0x0
".const.size mismatch for tuple, expected 6 element(s) but got %zd":
	.asciz	"size mismatch for tuple, expected 6 element(s) but got %zd"
	.size	".const.size mismatch for tuple, expected 6 element(s) but got %zd", 59

	.type	".const.can't unbox array from PyObject into native value.  The object maybe of a different type",@object
	.p2align	4, 0x0
".const.can't unbox array from PyObject into native value.  The object maybe of a different type":
	.asciz	"can't unbox array from PyObject into native value.  The object maybe of a different type"
	.size	".const.can't unbox array from PyObject into native value.  The object maybe of a different type", 89

	.type	".const.unknown error when calling native function",@object
	.p2align	4, 0x0
".const.unknown error when calling native function":
	.asciz	"unknown error when calling native function"
	.size	".const.unknown error when calling native function", 43

	.type	".const.unknown error when calling native function.2",@object
	.p2align	4, 0x0
".const.unknown error when calling native function.2":
	.asciz	"unknown error when calling native function"
	.size	".const.unknown error when calling native function.2", 43

	.type	".const.<numba.core.cpu.CPUContext>",@object
	.p2align	4, 0x0
".const.<numba.core.cpu.CPUContext>":
	.asciz	"<numba.core.cpu.CPUContext>"
	.size	".const.<numba.core.cpu.CPUContext>", 28

	.type	_ZN08NumbaEnv8__main__6beforeB2v2B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_29y,@object
	.comm	_ZN08NumbaEnv8__main__6beforeB2v2B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE230Line_28array_28uint8_2c_201d_2c_20C_29_2c_20array_28uint16_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28uint32_2c_201d_2c_20C_29_2c_20array_28int64_2c_201d_2c_20C_29_29y,8,8
	.section	".note.GNU-stack","",@progbits

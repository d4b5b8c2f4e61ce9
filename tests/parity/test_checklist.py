"""The checklist of reference tests worth mirroring, row by row, and the tests here that do.

Files of the reference: PP test_postprocs, CE test_compose_and_env, TV test_values (torchrl); NN nn/test_nn,
FT nn/test_functorch, GE tensordict/test_generic (tensordict). Tests here are named by their path below
tests/. A row without tests says why. `test_every_row_names_tests_that_are_there` reads the table against the
files.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROWS = "parity/test_td_module_rows.py::"
MODULE = "parity/test_td_module.py::"
SEQ = "parity/test_td_sequential.py::"
PROB = "parity/test_probabilistic.py::"
PROB_SEQ = "parity/test_probabilistic_sequential.py::"
COMPOSITE = "parity/test_composite.py::"
NORMAL = "parity/test_normal_params.py::"
FUNC = "parity/test_functional.py::"
STEP = "data/test_multistep.py::"
VALUES = "parity/test_value_estimates.py::"
VMAP = "nn/test_vmap.py::"

CHECKLIST: dict[str, list[str]] = {
    # multi-step returns and value estimates
    "PP MultiStep.test_multistep": [
        "parity/test_multistep.py::test_same_entries",
        STEP + "test_mask_clears_nonterminal_only",
    ],
    "PP test_mutistep_cattrajs": ["parity/test_multistep.py::test_same_entries", STEP + "test_vectors"],
    "PP test_unusual_done": [
        STEP + "test_one_done_per_agent",
        "parity/test_multistep.py::test_incompatible_shapes_raise_the_same_error",
    ],
    "rb test_rb_multidim_collector": [STEP + "test_in_a_sequence", STEP + "test_pickle"],
    "objectives test_*_batcher": [
        "parity/test_multistep.py::test_same_entries",
        STEP + "test_n_steps_may_change_between_calls",
    ],
    "TV test_gae, test_gae_multidim": [VALUES + "test_loops", VALUES + "test_vectorised"],
    "TV test_gae_param_as_tensor": [VALUES + "test_loops", VALUES + "test_arguments"],
    "TV test_tdlambda (multi, tensor_gamma, single_element)": [
        VALUES + "test_loops",
        VALUES + "test_vectorised",
        VALUES + "test_factors_of_the_first_step",
    ],
    "TV test_td1 (multi, tensor_gamma)": [VALUES + "test_loops", VALUES + "test_vectorised"],
    "TV test_vtrace (multidim)": [
        VALUES + "test_loops",
        "kernels/test_returns.py::test_features_share_the_flags",
    ],
    "TV test_successive_traj_tdlambda, _tdadv, _gae": [
        VALUES + "test_loops",
        "kernels/test_returns.py::test_gae_at_a_truncated_step_uses_its_own_next_value",
        "kernels/test_returns.py::test_td_lambda_at_a_truncated_step_uses_its_own_next_value",
    ],
    "TV test_args_kwargs_timedim": [VALUES + "test_time_dim", VALUES + "test_arguments"],
    # interaction types
    "NN TestInteractionType.test_base, test_from_str_*": [
        PROB + "test_interaction_types",
        PROB + "test_interaction_type_errors",
    ],
    "NN test_deterministic_sample": [
        PROB + "test_interaction",
        "parity/test_distribution_families.py::test_family",
    ],
    "NN TestSIM.test_cm, test_dec": [PROB + "test_settings"],
    # TensorDictModule
    "NN TDModule.test_module_method_and_kwargs": [ROWS + "test_module_method_and_kwargs"],
    "NN test_repr": [ROWS + "test_repr", SEQ + "test_cases"],
    "NN test_mutable_sequence": [ROWS + "test_mutable_sequence"],
    "NN test_auto_unravel": [ROWS + "test_auto_unravel", MODULE + "test_key_forms"],
    "NN test_input_keys": [ROWS + "test_input_keys_list", ROWS + "test_input_keys_dict"],
    "NN test_unused_out_to_in_map": [ROWS + "test_unused_out_to_in_map"],
    "NN test_input_keys_dict_reversed, _match_reversed, _wrong_mapping": [
        ROWS + "test_input_keys_directions",
        MODULE + "test_dict_in_keys_with_the_flag",
        MODULE + "test_dict_in_keys_without_the_flag_follow_the_seed_direction",
    ],
    "NN test_reset": [ROWS + "test_reset"],
    "NN test_reset_warning": [ROWS + "test_reset_warning"],
    "NN test_reset_functional": [ROWS + "test_reset_functional"],
    "NN test_reset_functional_called_once": [
        ROWS + "test_reset_called_once",
        "nn/test_td_module_base.py::test_each_layer_once",
    ],
    "NN test_reset_extra_dims": [ROWS + "test_reset_extra_dims"],
    "NN test_stateful, test_stateful_tensorclass": [
        ROWS + "test_stateful",
        ROWS + "test_stateful_tensorclass",
    ],
    "NN test_stateful_probabilistic (kwargs, deprec)": [
        PROB + "test_interaction",
        PROB + "test_keys",
        PROB + "test_distribution_kwargs",
    ],
    "NN test_strict": [MODULE + "test_calls", "nn/test_td_module.py::test_strict"],
    "NN test_nontensor": [ROWS + "test_nontensor", MODULE + "test_calls"],
    "NN test_vmap_kwargs": [ROWS + "test_vmap_kwargs"],
    "NN test_deepcopy": [ROWS + "test_deepcopy", "nn/test_td_module.py::test_public_names_are_forwarded"],
    "NN test_dispatch_deactivate": [
        ROWS + "test_dispatch_deactivate",
        "nn/test_dispatch.py::test_switching_off_by_environment",
    ],
    "NN test_dispatch, test_dispatch_changing_size": [MODULE + "test_dispatch"],
    "NN test_dispatch_nested, _confusing": [MODULE + "test_dispatch", ROWS + "test_dispatch_confusing"],
    "NN test_dispatch_nested_args": [
        MODULE + "test_dispatch",
        "nn/test_dispatch.py::test_duplicated_argument",
    ],
    "NN test_dispatch_auto_batch_size": [MODULE + "test_dispatch", "nn/test_dispatch.py::test_batch_size"],
    "NN test_dispatch_nested_extra_args, _sep, _source, _dest": [
        MODULE + "test_dispatch",
        "nn/test_dispatch.py::test_separator_source_and_dest",
    ],
    "NN test_dispatch_multi": [
        SEQ + "test_dispatch_of_random_weights",
        "nn/test_td_sequential.py::test_dispatch",
    ],
    "NN test_dispatch_module_with_additional_parameters": [
        ROWS + "test_dispatch_module_with_additional_parameters"
    ],
    "NN test_tdmodule_dict_output": [MODULE + "test_results"],
    "NN test_tdmodule_inplace": [MODULE + "test_where_results_go"],
    "NN test_keyerr_msg": [ROWS + "test_keyerr_msg"],
    "NN test_input": [ROWS + "test_input", MODULE + "test_construction"],
    "NN test_method_forward": [ROWS + "test_method_forward"],
    "NN test_serialization": [ROWS + "test_serialization", "nn/test_td_module.py::test_copy_and_pickle"],
    # TensorDictSequential
    "NN TDSequence.test_tdseq_inplace": [ROWS + "test_tdseq_inplace", SEQ + "test_runs_of_random_graphs"],
    "NN test_ordered_dict": [ROWS + "test_ordered_dict"],
    "NN test_ordered_dict_select_subsequence, _select_outkeys": [
        ROWS + "test_ordered_dict_select",
        SEQ + "test_cases",
    ],
    "NN test_input_keys (sequence)": ["nn/test_td_sequential.py::test_dict_in_keys"],
    "NN test_tdseq_tdoutput": [ROWS + "test_tdseq_tdoutput", SEQ + "test_selections_of_random_graphs"],
    "NN test_key_exclusion (constructor, constructor_exec)": [
        ROWS + "test_key_exclusion",
        SEQ + "test_keys_of_random_graphs",
    ],
    "NN test_prob_key_exclusion_*": [PROB_SEQ + "test_selected_out_keys"],
    "NN test_prob_seq_no_prob_modules (selected_out_keys)": [PROB_SEQ + "test_without_probabilistic_modules"],
    "NN test_prob_seq_subclass_without_selected_out_keys_arg": [
        "nn/test_probabilistic_sequential.py::test_a_subclass_need_not_take_the_keyword_arguments"
    ],
    "NN TDSequence.test_stateful (and probabilistic)": [
        ROWS + "test_stateful_list",
        PROB_SEQ + "test_sequence_as_a_list",
    ],
    "NN test_probtdseq": [PROB_SEQ + "test_sequence", PROB_SEQ + "test_tensordict_out"],
    "NN test_probtdseq_multdist, _intermediate_dist": [
        PROB_SEQ + "test_sequence",
        PROB_SEQ + "test_intermediate_distributions",
    ],
    "NN test_submodule_sequence_nested": [
        ROWS + "test_submodule_sequence_nested",
        SEQ + "test_subsequences_of_random_graphs",
    ],
    "NN test_subsequence_weight_update": [ROWS + "test_subsequence_weight_update"],
    # skip_existing and selection
    "NN TestSkipExisting.test_global (None)": [
        MODULE + "test_skip_existing",
        MODULE + "test_skip_existing_without_mode_is_no_context",
    ],
    "NN TestSkipExisting.test_global_with_module, test_module, test_tdmodule, test_tdseq": [
        MODULE + "test_skip_existing",
        "nn/test_skip_existing.py::test_modules_obey_the_flag",
        "nn/test_skip_existing.py::test_decorator",
    ],
    "NN TestSelectOutKeys.test_tdmodule": [
        ROWS + "test_selected_keys_of_a_module",
        MODULE + "test_selection",
    ],
    "NN TestSelectOutKeys dispatch, dispatch_kwargs, dispatch_firstcall": [
        ROWS + "test_selection_and_dispatch_in_any_order"
    ],
    "NN TestSelectOutKeys.test_tdseq, _tdseq_dispatch": [ROWS + "test_selection_of_a_sequence"],
    "NN TestSelectOutKeys.test_tdbase": [
        ROWS + "test_selection_of_a_base_class",
        MODULE + "test_selection_with_class_keys",
    ],
    "NN TestSelectOutKeys.test_tdmodule_wrap, _wrap_dispatch": [ROWS + "test_selection_through_a_wrapper"],
    # probabilistic modules
    "NN TestProb.test_tdprobseq_inplace": [PROB_SEQ + "test_inplace"],
    "NN test_probabilistic_n_samples, _seq_, _intermediate_seq_": [
        PROB + "test_num_samples",
        PROB + "test_num_samples_in_sequences",
    ],
    "NN test_nested_keys_probabilistic_delta, _normal": [PROB + "test_nested_keys"],
    "NN test_index_prob_seq": [PROB_SEQ + "test_index"],
    "NN test_no_warning_single_key": [PROB + "test_keys"],
    "NN test_generator_*": [
        PROB + "test_generator_errors",
        "nn/test_probabilistic.py::test_a_seed_makes_a_generator_that_goes_on",
        "nn/test_probabilistic.py::test_a_generator_is_advanced_in_place",
        "nn/test_probabilistic.py::test_a_seed_in_an_entry_is_replaced",
        "nn/test_probabilistic.py::test_a_seed_in_an_entry_is_kept_where_nothing_is_drawn",
        "nn/test_probabilistic.py::test_what_an_entry_may_not_hold",
    ],
    "NN TestCompositeDist.test_const, _sample, _sample_named, _rsample, test_from_distributions": [
        COMPOSITE + "test_composite_samples"
    ],
    "NN test_set_composite_lp_aggregate (build_and_get)": [
        COMPOSITE + "test_aggregate_of_modules",
        COMPOSITE + "test_aggregate_mode_mismatch",
    ],
    "NN test_log_prob, test_log_prob_composite": [COMPOSITE + "test_composite_log_prob"],
    "NN test_entropy, test_entropy_composite": [COMPOSITE + "test_composite_entropy"],
    "NN test_cdf, test_icdf": [COMPOSITE + "test_composite_cdf_and_icdf"],
    "NN test_prob_module (nested, seq, seq_nested)": [COMPOSITE + "test_composite_modules"],
    "NN TestAddStateIndependentNormalScale": [NORMAL + "test_state_independent_scale"],
    # functional parameters
    "NN test_module_buffer": [FUNC + "test_a_tensordict_as_buffer"],
    "NN TestEnsemble.test_init": [
        "nn/test_ensemble.py::test_copies_are_initialised_independently",
        FUNC + "test_ensembles",
    ],
    "NN TestEnsemble.test_siso_forward": [
        FUNC + "test_ensembles",
        "nn/test_ensemble.py::test_forward_gives_every_entry_the_copies",
    ],
    "NN TestEnsemble.test_chained_ensembles": ["nn/test_ensemble.py::test_chains"],
    "NN TestEnsemble.test_reset_once": ["nn/test_ensemble.py::test_reset_runs_once_per_copy"],
    "NN TestTDParams.test_td_params": [FUNC + "test_names_assignment_and_locks"],
    "NN TestTDParams.test_constructors": [
        FUNC + "test_kinds_after_construction",
        FUNC + "test_constructor_arguments",
    ],
    "NN test_td_params_cast": [FUNC + "test_casts_of_the_parent"],
    "NN test_td_params_tying": [FUNC + "test_tied_wrappers"],
    "NN test_td_params_post_hook": [FUNC + "test_get_hooks"],
    "NN test_tdparams_clone, _clone_tying": [FUNC + "test_clones"],
    "NN test_func_on_tdparams": [FUNC + "test_params_into_params"],
    "NN test_load_state_dict, _missing_entries": [FUNC + "test_state_dicts", FUNC + "test_missing_state"],
    "NN test_inplace_ops": [FUNC + "test_value_operations"],
    "NN TestStateDict.test_sd_params, test_sd_module": [FUNC + "test_state_dicts"],
    "NN TestToModule.test_plain_tensor_to_module_preserves...": [FUNC + "test_kinds_in_the_module"],
    "NN test_preserve_module_state_with_custom_setattr, keeps_buffers": [
        "nn/test_to_module.py::test_custom_setattr_and_attributes_do_not_get_in_the_way",
        "nn/test_to_module.py::test_a_buffer_stays_a_buffer",
    ],
    "NN TestToModule.test_static, test_cm": [
        FUNC + "test_swaps_restore",
        FUNC + "test_shared_layers",
        FUNC + "test_identities_after_the_block",
    ],
    "NN test_cm_meta": [FUNC + "test_meta_modules"],
    "NN test_params_detach": [FUNC + "test_detached_leaves"],
    "NN TestAsTDM": [
        ROWS + "test_decorated_functions",
        MODULE + "test_decorated_methods_use_their_own_object",
        "nn/test_td_wrappers.py::test_function",
    ],
    # vmap and trees
    "FT test_vmap_names": [VMAP + "test_names_of_the_mapped_dimension"],
    "FT test_vmap_write_lazystack": [VMAP + "test_writes_on_lazy_stacks", VMAP + "test_locked_tensordicts"],
    "FT test_vamp_basic": [VMAP + "test_tensordict_in_and_out"],
    "FT test_vamp_composed, _composed_flipped": [
        VMAP + "test_tensordicts_that_are_not_mapped_are_expanded_and_stay_as_they_are"
    ],
    "FT TestPyTree.test_pytree_map": [
        "parity/test_interop.py::test_pytrees_come_back_equal",
        "test_interop.py::test_optree",
    ],
    "GE test_from_module": [FUNC + "test_from_module"],
    "GE test_from_module_state_dict": [FUNC + "test_from_module_by_state_dict"],
    "GE test_from_modules": [
        FUNC + "test_from_modules",
        "nn/test_to_module.py::test_from_modules_as_a_module",
    ],
    "GE test_from_modules_expand": [FUNC + "test_expanded"],
    # Modules here have their shapes from the start; what may be missing is data.
    "GE test_from_modules_lazy": ["nn/test_to_module.py::test_modules_without_data_cannot_be_stacked"],
    # tensorclasses
    "NN TestTensorClassModule*, TestEdgeCases": [
        "parity/test_tensorclass_module.py::test_keys_and_results",
        "parity/test_tensorclass_module.py::test_types_that_are_no_tensorclasses",
        "nn/test_tensorclass_module.py::test_nested_fields_are_of_their_class",
        "nn/test_tensorclass_module.py::test_in_a_sequence",
    ],
}

WITHOUT = {
    "PP TestDensifyReward": "lite.data has no DensifyReward",
    "PP TestSplits": "optional: lite.data does not split trajectories",
    "CE TestMultiStepTransform, test_multistep_transform_changes, test_multisteptransform_single_item": (
        "lite.data has no replay buffer, whose transform it is"
    ),
    "FX trace-consistency tests": "there is no tracing",
}


@cache
def defined_in(path: str) -> frozenset[str]:
    """Names of the test functions and methods of a file."""
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("row", CHECKLIST)
def test_every_row_names_tests_that_are_there(row: str) -> None:
    assert CHECKLIST[row]
    for test in CHECKLIST[row]:
        path, _, name = test.partition("::")
        assert name.startswith("test_")
        assert name in defined_in(path), f"{row}: there is no {test}"


def test_a_row_has_tests_or_a_reason() -> None:
    assert not set(CHECKLIST) & set(WITHOUT)
    assert all(WITHOUT.values())

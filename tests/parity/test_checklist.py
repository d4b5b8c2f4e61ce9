"""The checklist of reference tests worth mirroring, row by row, and the tests here that do.

Files of the reference: PP test_postprocs, CE test_compose_and_env, TV test_values, rb and objectives
(torchrl); NN nn/test_nn, FT nn/test_functorch, FX nn/test_fx, GE tensordict/test_generic (tensordict). Below
each row are the tests, by their path below tests/, or "none:" and the reason; notes are in parentheses. The
tests of this file read the table and look the names up.

row
    | tests or reason

# Multi-step returns and value estimates
PP MultiStep.test_multistep
    | parity/test_multistep.py::test_same_entries
    | data/trajectories/test_multistep.py::test_mask_clears_nonterminal_only
PP test_mutistep_cattrajs
    | parity/test_multistep.py::test_same_entries
    | data/trajectories/test_multistep.py::test_vectors
PP test_unusual_done
    | data/trajectories/test_multistep.py::test_one_done_per_agent
    | parity/test_multistep.py::test_incompatible_shapes_raise_the_same_error
PP TestDensifyReward
    | data/trajectories/test_densify_reward.py::test_each_step_has_the_reward_of_its_end
    | data/trajectories/test_densify_reward.py::test_rewards_on_the_way_are_summed_and_discounted
    | parity/test_densify_reward.py::test_same_entries
PP TestSplits
    | data/trajectories/test_split_trajectories.py::test_batches_of_a_collector
    | data/trajectories/test_split_trajectories.py::test_a_ragged_stack_instead_of_padding
    | parity/test_split_trajectories.py::test_same_entries_by_ids
    | parity/test_split_trajectories.py::test_the_same_trajectories_unpadded
rb test_rb_multidim_collector
    | data/trajectories/test_multistep.py::test_in_a_sequence
    | data/trajectories/test_multistep.py::test_pickle
    | data/trajectories/test_split_trajectories.py::test_the_mask_is_the_one_of_multistep
objectives test_*_batcher
    | parity/test_multistep.py::test_same_entries
    | data/trajectories/test_multistep.py::test_n_steps_may_change_between_calls
CE TestMultiStepTransform, test_multistep_transform_changes, test_multisteptransform_single_item
    | data/trajectories/test_multistep_transform.py::test_chunks_make_no_difference
    | data/trajectories/test_multistep_transform.py::test_sizes_of_what_comes_out
    | data/trajectories/test_multistep_transform.py::test_n_steps_may_grow_and_shrink_between_calls
    | data/trajectories/test_multistep_transform.py::test_single_frames
    | parity/test_multistep_transform.py::test_same_frames
TV test_gae, test_gae_multidim
    | parity/test_value_estimates.py::test_loops
    | parity/test_value_estimates.py::test_vectorised
TV test_gae_param_as_tensor
    | parity/test_value_estimates.py::test_loops
    | parity/test_value_estimates.py::test_arguments
TV test_tdlambda (multi, tensor_gamma, single_element)
    | parity/test_value_estimates.py::test_loops
    | parity/test_value_estimates.py::test_vectorised
    | parity/test_value_estimates.py::test_factors_of_the_first_step
TV test_td1 (multi, tensor_gamma)
    | parity/test_value_estimates.py::test_loops
    | parity/test_value_estimates.py::test_vectorised
TV test_vtrace (multidim)
    | parity/test_value_estimates.py::test_loops
    | kernels/test_returns.py::test_features_share_the_flags
TV test_successive_traj_tdlambda, _tdadv, _gae
    | parity/test_value_estimates.py::test_loops
    | kernels/test_advantages.py::test_gae_at_a_truncated_step_uses_its_own_next_value
    | kernels/test_returns.py::test_td_lambda_at_a_truncated_step_uses_its_own_next_value
TV test_args_kwargs_timedim
    | parity/test_value_estimates.py::test_time_dim
    | parity/test_value_estimates.py::test_arguments

# Interaction types
NN TestInteractionType.test_base, test_from_str_*
    | parity/test_probabilistic.py::test_interaction_types
    | parity/test_probabilistic.py::test_interaction_type_errors
NN test_deterministic_sample
    | parity/test_probabilistic.py::test_interaction
    | parity/test_distribution_families.py::test_family
NN TestSIM.test_cm, test_dec
    | parity/test_probabilistic.py::test_settings

# TensorDictModule
NN TDModule.test_module_method_and_kwargs
    | parity/test_td_module_rows.py::test_module_method_and_kwargs
NN test_repr
    | parity/test_td_module_rows.py::test_repr
    | parity/test_td_sequential.py::test_cases
NN test_mutable_sequence
    | parity/test_td_module_rows.py::test_mutable_sequence
NN test_auto_unravel
    | parity/test_td_module_rows.py::test_auto_unravel
    | parity/test_td_module.py::test_key_forms
NN test_input_keys
    | parity/test_td_module_rows.py::test_input_keys_list
    | parity/test_td_module_rows.py::test_input_keys_dict
NN test_unused_out_to_in_map
    | parity/test_td_module_rows.py::test_unused_out_to_in_map
NN test_input_keys_dict_reversed, _match_reversed, _wrong_mapping
    | parity/test_td_module_rows.py::test_input_keys_directions
    | parity/test_td_module.py::test_dict_in_keys_with_the_flag
    | parity/test_td_module.py::test_dict_in_keys_without_the_flag_follow_the_seed_direction
NN test_reset
    | parity/test_td_module_rows.py::test_reset
NN test_reset_warning
    | parity/test_td_module_rows.py::test_reset_warning
NN test_reset_functional
    | parity/test_td_module_rows.py::test_reset_functional
NN test_reset_functional_called_once
    | parity/test_td_module_rows.py::test_reset_called_once
    | nn/tensordict_modules/test_base.py::test_each_layer_once
NN test_reset_extra_dims
    | parity/test_td_module_rows.py::test_reset_extra_dims
NN test_stateful, test_stateful_tensorclass
    | parity/test_td_module_rows.py::test_stateful
    | parity/test_td_module_rows.py::test_stateful_tensorclass
NN test_stateful_probabilistic (kwargs, deprec)
    | parity/test_probabilistic.py::test_interaction
    | parity/test_probabilistic.py::test_keys
    | parity/test_probabilistic.py::test_distribution_kwargs
NN test_strict
    | parity/test_td_module.py::test_calls
    | nn/tensordict_modules/test_module.py::test_strict
NN test_nontensor
    | parity/test_td_module_rows.py::test_nontensor
    | parity/test_td_module.py::test_calls
NN test_vmap_kwargs
    | parity/test_td_module_rows.py::test_vmap_kwargs
NN test_deepcopy
    | parity/test_td_module_rows.py::test_deepcopy
    | nn/tensordict_modules/test_module.py::test_public_names_are_forwarded
NN test_dispatch_deactivate
    | parity/test_td_module_rows.py::test_dispatch_deactivate
    | nn/tensordict_modules/test_dispatch.py::test_switching_off_by_environment
NN test_dispatch, test_dispatch_changing_size
    | parity/test_td_module.py::test_dispatch
NN test_dispatch_nested, _confusing
    | parity/test_td_module.py::test_dispatch
    | parity/test_td_module_rows.py::test_dispatch_confusing
NN test_dispatch_nested_args
    | parity/test_td_module.py::test_dispatch
    | nn/tensordict_modules/test_dispatch.py::test_duplicated_argument
NN test_dispatch_auto_batch_size
    | parity/test_td_module.py::test_dispatch
    | nn/tensordict_modules/test_dispatch.py::test_batch_size
NN test_dispatch_nested_extra_args, _sep, _source, _dest
    | parity/test_td_module.py::test_dispatch
    | nn/tensordict_modules/test_dispatch.py::test_separator_source_and_dest
NN test_dispatch_multi
    | parity/test_td_sequential.py::test_dispatch_of_random_weights
    | nn/tensordict_modules/test_sequential.py::test_dispatch
NN test_dispatch_module_with_additional_parameters
    | parity/test_td_module_rows.py::test_dispatch_module_with_additional_parameters
NN test_tdmodule_dict_output
    | parity/test_td_module.py::test_results
NN test_tdmodule_inplace
    | parity/test_td_module.py::test_where_results_go
NN test_keyerr_msg
    | parity/test_td_module_rows.py::test_keyerr_msg
NN test_input
    | parity/test_td_module_rows.py::test_input
    | parity/test_td_module.py::test_construction
NN test_method_forward
    | parity/test_td_module_rows.py::test_method_forward
NN test_serialization
    | parity/test_td_module_rows.py::test_serialization
    | nn/tensordict_modules/test_module.py::test_copy_and_pickle

# TensorDictSequential
NN TDSequence.test_tdseq_inplace
    | parity/test_td_sequential_rows.py::test_tdseq_inplace
    | parity/test_td_sequential.py::test_runs_of_random_graphs
NN test_ordered_dict
    | parity/test_td_sequential_rows.py::test_ordered_dict
NN test_ordered_dict_select_subsequence, _select_outkeys
    | parity/test_td_sequential_rows.py::test_ordered_dict_select
    | parity/test_td_sequential.py::test_cases
NN test_input_keys (sequence)
    | nn/tensordict_modules/test_sequential.py::test_dict_in_keys
NN test_tdseq_tdoutput
    | parity/test_td_sequential_rows.py::test_tdseq_tdoutput
    | parity/test_td_sequential.py::test_selections_of_random_graphs
NN test_key_exclusion (constructor, constructor_exec)
    | parity/test_td_sequential_rows.py::test_key_exclusion
    | parity/test_td_sequential.py::test_keys_of_random_graphs
NN test_prob_key_exclusion_*
    | parity/test_probabilistic_sequential.py::test_selected_out_keys
NN test_prob_seq_no_prob_modules (selected_out_keys)
    | parity/test_probabilistic_sequential.py::test_without_probabilistic_modules
NN test_prob_seq_subclass_without_selected_out_keys_arg
    | nn/tensordict_modules/test_probabilistic_sequential.py::test_a_subclass_need_not_take_keyword_arguments
NN TDSequence.test_stateful (and probabilistic)
    | parity/test_td_sequential_rows.py::test_stateful_list
    | parity/test_probabilistic_sequential.py::test_sequence_as_a_list
NN test_probtdseq
    | parity/test_probabilistic_sequential.py::test_sequence
    | parity/test_probabilistic_sequential.py::test_tensordict_out
NN test_probtdseq_multdist, _intermediate_dist
    | parity/test_probabilistic_sequential.py::test_sequence
    | parity/test_probabilistic_sequential.py::test_intermediate_distributions
NN test_submodule_sequence_nested
    | parity/test_td_sequential_rows.py::test_submodule_sequence_nested
    | parity/test_td_sequential.py::test_subsequences_of_random_graphs
NN test_subsequence_weight_update
    | parity/test_td_sequential_rows.py::test_subsequence_weight_update

# Skipping what exists, and selection
NN TestSkipExisting.test_global (None)
    | parity/test_td_module.py::test_skip_existing
    | parity/test_td_module.py::test_skip_existing_without_mode_is_no_context
NN TestSkipExisting.test_global_with_module, test_module, test_tdmodule, test_tdseq
    | parity/test_td_module.py::test_skip_existing
    | nn/test_settings_skip_existing.py::test_modules_obey_the_flag
    | nn/test_settings_skip_existing.py::test_decorator
NN TestSelectOutKeys.test_tdmodule
    | parity/test_td_sequential_rows.py::test_selected_keys_of_a_module
    | parity/test_td_module.py::test_selection
NN TestSelectOutKeys dispatch, dispatch_kwargs, dispatch_firstcall
    | parity/test_td_sequential_rows.py::test_selection_and_dispatch_in_any_order
NN TestSelectOutKeys.test_tdseq, _tdseq_dispatch
    | parity/test_td_sequential_rows.py::test_selection_of_a_sequence
NN TestSelectOutKeys.test_tdbase
    | parity/test_td_sequential_rows.py::test_selection_of_a_base_class
    | parity/test_td_module.py::test_selection_with_class_keys
NN TestSelectOutKeys.test_tdmodule_wrap, _wrap_dispatch
    | parity/test_td_sequential_rows.py::test_selection_through_a_wrapper

# Probabilistic modules
NN TestProb.test_tdprobseq_inplace
    | parity/test_probabilistic_sequential.py::test_inplace
NN test_probabilistic_n_samples, _seq_, _intermediate_seq_
    | parity/test_probabilistic.py::test_num_samples
    | parity/test_probabilistic.py::test_num_samples_in_sequences
NN test_nested_keys_probabilistic_delta, _normal
    | parity/test_probabilistic.py::test_nested_keys
NN test_index_prob_seq
    | parity/test_probabilistic_sequential.py::test_index
NN test_no_warning_single_key
    | parity/test_probabilistic.py::test_keys
NN test_generator_*
    | parity/test_probabilistic.py::test_generator_errors
    | nn/tensordict_modules/test_probabilistic.py::test_a_seed_makes_a_generator_that_goes_on
    | nn/tensordict_modules/test_probabilistic.py::test_a_generator_is_advanced_in_place
    | nn/tensordict_modules/test_probabilistic.py::test_a_seed_in_an_entry_is_replaced
    | nn/tensordict_modules/test_probabilistic.py::test_a_seed_in_an_entry_is_kept_where_nothing_is_drawn
    | nn/tensordict_modules/test_probabilistic.py::test_what_an_entry_may_not_hold
NN TestCompositeDist.test_const, _sample, _sample_named, _rsample, test_from_distributions
    | parity/test_composite.py::test_composite_samples
NN test_set_composite_lp_aggregate (build_and_get)
    | parity/test_composite.py::test_aggregate_of_modules
    | parity/test_composite.py::test_aggregate_mode_mismatch
NN test_log_prob, test_log_prob_composite
    | parity/test_composite.py::test_composite_log_prob
NN test_entropy, test_entropy_composite
    | parity/test_composite.py::test_composite_entropy
NN test_cdf, test_icdf
    | parity/test_composite.py::test_composite_cdf_and_icdf
NN test_prob_module (nested, seq, seq_nested)
    | parity/test_composite.py::test_composite_modules
NN TestAddStateIndependentNormalScale
    | parity/test_normal_params.py::test_state_independent_scale

# Functional parameters
NN test_module_buffer
    | parity/test_params.py::test_a_tensordict_as_buffer
NN TestEnsemble.test_init
    | nn/parameters/test_ensemble.py::test_copies_are_initialised_independently
    | parity/test_functional.py::test_ensembles
NN TestEnsemble.test_siso_forward
    | parity/test_functional.py::test_ensembles
    | nn/parameters/test_ensemble.py::test_forward_gives_every_entry_the_copies
NN TestEnsemble.test_chained_ensembles
    | nn/parameters/test_ensemble.py::test_chains
NN TestEnsemble.test_reset_once
    | nn/parameters/test_ensemble.py::test_reset_runs_once_per_copy
NN TestTDParams.test_td_params
    | parity/test_params.py::test_names_assignment_and_locks
NN TestTDParams.test_constructors
    | parity/test_params.py::test_kinds_after_construction
    | parity/test_params.py::test_constructor_arguments
NN test_td_params_cast
    | parity/test_params.py::test_casts_of_the_parent
NN test_td_params_tying
    | parity/test_params.py::test_tied_wrappers
NN test_td_params_post_hook
    | parity/test_params.py::test_get_hooks
NN test_tdparams_clone, _clone_tying
    | parity/test_params.py::test_clones
NN test_func_on_tdparams
    | parity/test_params.py::test_params_into_params
NN test_load_state_dict, _missing_entries
    | parity/test_params.py::test_state_dicts
    | parity/test_params.py::test_missing_state
NN test_inplace_ops
    | parity/test_params.py::test_value_operations
NN TestStateDict.test_sd_params, test_sd_module
    | parity/test_params.py::test_state_dicts
NN TestToModule.test_plain_tensor_to_module_preserves...
    | parity/test_to_module.py::test_kinds_in_the_module
NN test_preserve_module_state_with_custom_setattr, keeps_buffers
    | nn/parameters/test_to_module.py::test_custom_setattr_and_attributes_do_not_get_in_the_way
    | nn/parameters/test_to_module.py::test_a_buffer_stays_a_buffer
NN TestToModule.test_static, test_cm
    | parity/test_to_module.py::test_swaps_restore
    | parity/test_to_module.py::test_shared_layers
    | parity/test_to_module.py::test_identities_after_the_block
NN test_cm_meta
    | parity/test_to_module.py::test_meta_modules
NN test_params_detach
    | parity/test_to_module.py::test_detached_leaves
NN TestAsTDM
    | parity/test_td_sequential_rows.py::test_decorated_functions
    | parity/test_td_module.py::test_decorated_methods_use_their_own_object
    | nn/tensordict_modules/test_wrappers.py::test_function

# Vmap and trees
FT test_vmap_names
    | transforms/vmap/test_tensordicts.py::test_names_of_the_mapped_dimension
FT test_vmap_write_lazystack
    | transforms/vmap/test_tensordicts.py::test_writes_on_lazy_stacks
    | transforms/vmap/test_tensordicts.py::test_locked_tensordicts
FT test_vamp_basic
    | transforms/vmap/test_tensordicts.py::test_tensordict_in_and_out
FT test_vamp_composed, _composed_flipped
    | transforms/vmap/test_tensordicts.py::test_what_is_not_mapped_is_expanded_and_stays_as_it_is
FT TestPyTree.test_pytree_map
    | parity/test_interop.py::test_pytrees_come_back_equal
    | convert/test_pytree.py::test_optree
GE test_from_module
    | parity/test_functional.py::test_from_module
GE test_from_module_state_dict
    | parity/test_functional.py::test_from_module_by_state_dict
GE test_from_modules
    | parity/test_functional.py::test_from_modules
    | nn/parameters/test_from_module.py::test_from_modules_as_a_module
GE test_from_modules_expand
    | parity/test_functional.py::test_expanded
GE test_from_modules_lazy
    | nn/parameters/test_from_module.py::test_modules_without_data_cannot_be_stacked
    | (modules have their shapes from the start; what may be missing is data)

# Tensorclasses
NN TestTensorClassModule*, TestEdgeCases
    | parity/test_tensorclass_module.py::test_keys_and_results
    | parity/test_tensorclass_module.py::test_types_that_are_no_tensorclasses
    | nn/tensordict_modules/test_tensorclass_module.py::test_nested_fields_are_of_their_class
    | nn/tensordict_modules/test_tensorclass_module.py::test_in_a_sequence

# Tracing
FX trace-consistency tests
    | none: lite runs on NumPy as it is called, and has no tracing
"""

from __future__ import annotations

from collections import Counter

import pytest
from helpers.checklists import check_row, table

# Rows by file, so that none is lost unseen.
ROWS = {"PP": 5, "rb": 1, "objectives": 1, "CE": 1, "TV": 7, "NN": 91, "FT": 5, "GE": 5, "FX": 1}
CHECKLIST = table(__doc__)


def test_no_row_is_missing() -> None:
    assert Counter(row.split()[0] for row in CHECKLIST) == ROWS


@pytest.mark.parametrize("row", CHECKLIST)
def test_every_row_has_tests_that_are_there_or_a_reason(row: str) -> None:
    check_row(row, CHECKLIST[row])


@pytest.mark.parametrize(
    "text", ["PP a\n    | x::y\nPP a\n", "broken-row\n", "PP a\n   | three spaces\n", "    | no row\n"]
)
def test_a_table_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        table("    | tests or reason\n" + text)
